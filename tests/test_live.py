"""What is shown while a run goes on: frames at several widths, and who gets which display."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyte
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from aiperf_spec.analysis.report import length, rate
from aiperf_spec.cli.app import app
from aiperf_spec.config.choices import Ui
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import ErrorKind, Phase
from aiperf_spec.render.live_frame import RunProgress, frame, simple_line
from aiperf_spec.render.progress import Display, chosen_ui
from tests.records import MS, failed, record
from tests.simulated_runs import simulated_run
from tests.support import Simulate
from tests.waiting import happens

NOW = 5_000 * MS


def progress(requests: int = 40, total: int | None = 100, warmup: int = 0, **settings: Any) -> RunProgress:
    config = ProfileConfig(url="http://h:1", warmup_request_count=warmup, **{"concurrency": 8, **settings})
    state = RunProgress(config)
    state.expect({Phase.WARMUP: warmup, Phase.PROFILING: total})
    state.in_flight = 8
    for index in range(requests):
        histogram = {0: 4 + index % 3, 1: 2, 12: 1}
        state.take(record(index, start=index * 100, contents=(9, 80), tokens=20, histogram=histogram, proposed=200))
    return state


def lines(state: RunProgress, width: int = 80, height: int = 40, now: int = NOW, **settings: Any) -> list[str]:
    return [line.plain for line in frame(state, now, width, height, **settings)]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_frame_fits_and_says_where_the_run_stands(width: int) -> None:
    shown = lines(progress(), width)
    assert max(map(len, shown)) < width
    assert "40 of 100" in shown[0]
    assert " 40%" in shown[0]
    assert "8 in flight, 0 failed, 8.0/s, 0:08 left" in shown[1]
    assert shown[2].startswith("accept length  2.76  (95 %: 2.70 to 2.81)")
    assert shown[3].startswith("draft rate     7.00 %")
    assert "TTFT           p50 9.00, p99 9.00 ms, last 10 s" in "\n".join(shown)
    assert ">=8" in "\n".join(shown)
    assert len(shown) == (11 if width == 140 else 15)


@pytest.mark.parametrize("width", [20, 30, 40, 50])
def test_a_narrow_frame_cuts_no_figure(width: int) -> None:
    def words(shown: list[str]) -> list[str]:
        return [word for word in " ".join(shown).split() if not set(word) & set("━─█")]

    shown = lines(progress(), width)
    assert max(map(len, shown)) < width
    assert words(shown) == words(lines(progress(), 100))


def test_a_low_terminal_keeps_what_comes_first() -> None:
    assert len(lines(progress(), height=4)) == 3
    assert len(lines(progress(), width=20, height=1)) == 1


def test_ascii_terminals_get_ascii() -> None:
    assert "".join(lines(progress(), ascii_only=True)).isascii()


def test_warm_up_is_labelled_and_in_no_figure() -> None:
    state = progress(0, warmup=4)
    state.take(record(0, start=0, contents=(5, 9), tokens=9, histogram={3: 2}, phase=Phase.WARMUP))
    shown = lines(state)
    assert shown[0].startswith("warm-up")
    assert "in no figure" in shown[1]
    assert shown[2] == "accept length  –"
    assert len(shown) == 6
    for index in range(1, 4):
        state.take(record(index, start=0, contents=(5, 9), tokens=9, histogram={3: 2}, phase=Phase.WARMUP))
    assert lines(state)[0].startswith("profiling")


def test_a_failed_turn_of_the_warm_up_leaves_no_warm_up_behind() -> None:
    state = progress(0, warmup=4)
    state.take(replace(failed(0, ErrorKind.INCOMPLETE), phase=Phase.WARMUP, unsent_turns=2))
    assert lines(state)[0].startswith("warm-up")
    state.take(record(3, start=0, contents=(5, 9), tokens=9, histogram={3: 2}, phase=Phase.WARMUP))
    assert lines(state)[0].startswith("profiling")


@pytest.mark.parametrize(
    ("done", "settings", "stage"),
    [
        (3, {}, "ramp-up"),
        (40, {}, None),
        (95, {}, "draining"),
        (3, {"concurrency": 1}, None),
        (3, {"request_rate": 5.0}, None),
        (40, {"benchmark_duration": 2.0}, "grace period"),
    ],
)
def test_beginning_and_end_are_labelled(done: int, settings: dict[str, Any], stage: str | None) -> None:
    text = "\n".join(lines(progress(done, **settings)))
    for word in ("ramp-up", "draining", "grace period"):
        assert (word in text) == (word == stage)


def test_failures_are_counted() -> None:
    state = progress()
    state.take(failed(41, ErrorKind.READ_TIMEOUT, message="[red]\x1b[2J"))
    text = "\n".join(lines(state))
    assert "1 failed" in text
    assert "\x1b" not in text


def test_without_a_total_there_is_no_bar() -> None:
    shown = lines(progress(total=None))
    assert shown[0] == "profiling      40 done"
    assert "left" not in shown[1]
    timed = lines(progress(total=None, benchmark_duration=10.0))
    assert "50%" in timed[0]
    assert "0:05 left" in timed[1]


def test_turns_and_repeats_of_a_prompt_count_once() -> None:
    once, often = progress(), progress()
    for turn in (0, 1):
        for index in range(40):
            histogram = {0: 4 + index % 3, 1: 2, 12: 1}
            later = record(index, start=0, contents=(9, 80), tokens=20, histogram=histogram, proposed=200)
            later.turn_index = turn
            often.take(later)
    assert lines(often)[2] == lines(once)[2]
    assert lines(once)[2].endswith("40 prompts")


def test_the_interval_shown_is_the_one_of_the_analysis() -> None:
    state, run = progress(0), simulated_run(1, 60)
    for each in run:
        state.take(each)
    assert state.figures(NOW)[0].low == pytest.approx(length(run).low)
    assert state.figures(NOW)[1].high == pytest.approx(rate(run).high)
    assert length(run).n == state.figures(NOW)[0].n == 60


def test_steps_without_a_draft_are_said() -> None:
    state = progress(5)
    assert "decode steps" not in "\n".join(lines(state)) + simple_line(state, NOW)
    for index in range(5, 10):
        each = record(index, start=index * 100, contents=(9, 80), tokens=30, histogram={0: 5, 1: 5}, proposed=50)
        assert each.acceptance is not None
        state.take(replace(each, acceptance=replace(each.acceptance, completion_tokens=30)))
    # Of 30 tokens 1 is the prompt's and 15 came from 10 verify steps: 14 steps had no draft.
    share = state.verify_steps / state.decode_steps
    assert state.decode_steps - state.verify_steps == 5 * 14
    assert f"a draft in {100 * share:.0f} % of decode steps" in "\n".join(lines(state))
    assert f"a draft in {100 * share:.0f} % of decode steps" in simple_line(state, NOW)


def test_percentiles_are_of_the_last_ten_seconds() -> None:
    state = progress()
    assert "p50" in lines(state)[4]
    assert lines(state, now=60_000 * MS)[4] == "TTFT           –"


def test_a_simple_line_is_one_line() -> None:
    text = simple_line(progress(), NOW)
    assert "\n" not in text
    assert text.startswith("profiling: 40 of 100 done, 8 in flight, 0 failed, 8.0/s, 0:08 left; length 2.76")


def console(*, terminal: bool = True, width: int = 80) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=width,
        height=30,
        color_system="standard",
        legacy_windows=False,
    )


def test_who_gets_which_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert chosen_ui(console(), Ui.AUTO) is Ui.LIVE
    assert chosen_ui(console(terminal=False), Ui.AUTO) is Ui.SIMPLE
    assert chosen_ui(console(terminal=False), Ui.LIVE) is Ui.SIMPLE
    assert chosen_ui(console(), Ui.NONE) is Ui.NONE
    monkeypatch.setenv("TERM", "dumb")
    assert chosen_ui(console(), Ui.AUTO) is Ui.SIMPLE


def screen_of(written: str, width: int = 80) -> list[str]:
    """Return what a terminal of 30 lines shows after taking what was written, without the blank lines at its end."""
    screen = pyte.Screen(width, 30)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(written)
    return "\n".join(line.rstrip() for line in screen.display).rstrip().split("\n")


async def test_the_live_display_draws_over_itself_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = console()
    written: Callable[[], str] = terminal.file.getvalue  # type: ignore[attr-defined]
    terminal.file.write("$ spec-profile\n")
    with Display(terminal, ProfileConfig(url="http://h:1"), Ui.AUTO) as display:
        display.expect({Phase.WARMUP: 0, Phase.PROFILING: 2})
        task = asyncio.create_task(display.watch(lambda: 1))
        await happens(lambda: "0 of 2" in written(), "a first frame")
        assert len(screen_of(written())) == 7
        display.sink(record(0, start=0, contents=(5, 9), tokens=9, histogram={3: 2}))
        await happens(lambda: "1 of 2" in written(), "a second frame")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        shown = screen_of(written())
        assert (len(shown), shown[0], sum("profiling" in line for line in shown)) == (11, "$ spec-profile", 1)
    assert screen_of(written()) == ["$ spec-profile"]
    # The cursor is not left hidden while the run goes on: a second Ctrl-C leaves at once.
    assert written().index("\x1b[?25h") < written().index("0 of 2")


def test_a_narrower_terminal_has_broken_lines_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = console(width=100)
    display = Display(terminal, ProfileConfig(url="http://h:1"), Ui.LIVE)
    display.expect({Phase.WARMUP: 0, Phase.PROFILING: 2})
    display.draw()
    first = terminal.file.getvalue()  # type: ignore[attr-defined]
    terminal.width = 60
    display.draw()
    again = terminal.file.getvalue()[len(first) :]  # type: ignore[attr-defined]
    # Six lines and the cursor's, of which the bar is broken in two.
    assert again.count("\x1b[1A") == 7


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_go_under_no_color(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1" if no_color else "")
    terminal = console()
    display = Display(terminal, ProfileConfig(url="http://h:1"), Ui.LIVE)
    display.sink(failed(0, ErrorKind.READ_TIMEOUT))
    display.draw()
    written = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[1maccept length" in written
    assert ("\x1b[31m1 failed" in written) is not no_color


def test_a_closed_terminal_ends_the_display_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = console()
    display = Display(screen, ProfileConfig(url="http://h:1"), Ui.LIVE)
    screen.file.close()
    display.draw()
    assert chosen_ui(console(), Ui.LIVE) is Ui.LIVE


def run(simulate: Simulate, tmp_path: Path, *more: str, length: tuple[str, str] = ("--request-count", "3")) -> Result:
    arguments = ["--url", simulate("vllm").url, *length, "--artifact-dir", str(tmp_path / "run")]
    return CliRunner().invoke(app, [*arguments, "--overwrite", *more], env={"COLUMNS": "100"})


def test_a_short_run_without_a_terminal_shows_no_progress(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long it takes a busy machine.
    monkeypatch.setattr("aiperf_spec.render.progress._LINE_SECONDS", 3600)
    assert "profiling:" not in run(simulate, tmp_path).stderr
    assert "profiling:" not in run(simulate, tmp_path, "--ui", "none").stderr
    said = run(simulate, tmp_path, "--ui", "simple").stderr
    assert "profiling: 3 of 3 done, 0 in flight, 0 failed" in said


def test_quiet_prints_the_acceptance_table_alone(simulate: Simulate, tmp_path: Path) -> None:
    result = run(simulate, tmp_path, "--quiet")
    assert result.exit_code == 0
    assert result.stdout.startswith("Acceptance")
    assert "Acceptance length" in result.stdout
    assert "3 of 3 successful requests reported acceptance" in result.stdout
    for other in ("Latency", "Server ", "Category", "per verify step\n"):
        assert other not in result.stdout


def test_quiet_still_says_what_failed(tmp_path: Path) -> None:
    arguments = ["--url", "http://127.0.0.1:1", "--model", "m", "--request-count", "1", "--quiet"]
    result = CliRunner().invoke(app, [*arguments, "--artifact-dir", str(tmp_path / "run")])
    assert result.exit_code == 1
    assert "connect" in result.stdout


def test_json_is_the_summary_and_nothing_else(simulate: Simulate, tmp_path: Path) -> None:
    result = run(simulate, tmp_path, "--json", "--ui", "simple", "--require", "acceptance_length >= 99")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert document == json.loads((tmp_path / "run" / "profile_export_aiperf.json").read_text())
    assert document["spec_profile"]["requests"]["succeeded"] == 3
    assert "not met" in result.stderr


def test_a_duration_counts_towards_no_number_of_requests(simulate: Simulate, tmp_path: Path) -> None:
    # Prompts repeat until the time is over: their number is not the run's.
    said = run(simulate, tmp_path, "--ui", "simple", length=("--benchmark-duration", "0.5")).stderr
    assert re.search(r"profiling: \d+ done", said)
