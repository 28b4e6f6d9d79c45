"""The folders of several clients: how their clocks stand, whether they are one run, and what each added."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.artifacts.read.folders import RunFolder, find_runs
from aiperf_spec.artifacts.read.run import load_run
from aiperf_spec.artifacts.write.config_yaml import config_yaml
from aiperf_spec.artifacts.write.record_lines import record_line
from aiperf_spec.artifacts.write.summary_files import summary_json
from aiperf_spec.cli.app import app
from aiperf_spec.client.client import Client
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.load import server_clock
from aiperf_spec.load.server_clock import read_clock
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.clients import ClockOffset, DatedAnswer, clock_offset
from aiperf_spec.models.run import DatasetInfo, RunResult
from tests.answering import Answer, answering
from tests.simulated_runs import simulated_run

S = 1_000_000_000
NOW = 1_800_000_000


def answers(ahead_s: float, *, stale_s: float = 0.0, fractions: tuple[float, ...]) -> list[DatedAnswer]:
    """Return answers of a server whose clock is ahead, asked at these fractions of its seconds; 20 ms on the way."""
    found = []
    for number, fraction in enumerate(fractions):
        server_s = NOW + number + fraction
        asked = round((server_s - ahead_s) * S)
        found.append(DatedAnswer(asked - 10_000_000, asked + 10_000_000, int(server_s - stale_s)))
    return found


@pytest.mark.parametrize("stale_s", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("ahead_s", [-3600.0, -3.2, -0.4, 0.0, 0.3, 2.5, 90_000.0])
def test_the_bounds_hold_the_offset(ahead_s: float, stale_s: float) -> None:
    found = clock_offset(answers(ahead_s, stale_s=stale_s, fractions=(0.0, 0.25, 0.5, 0.75, 0.99)))
    assert found is not None
    assert found.least_ms <= ahead_s * 1000 <= found.greatest_ms
    assert found.greatest_ms - found.least_ms < 1300
    # What may agree is left as it is, and what cannot is put right.
    may_agree = found.least_ms <= 0 <= found.greatest_ms
    assert (found.correction_ms == 0) is may_agree
    assert abs(ahead_s * 1000 - found.correction_ms) < (1300 if may_agree else 650)
    assert found.answers == 5


def test_answers_that_tell_nothing() -> None:
    assert clock_offset([]) is None
    apart = [*answers(0, fractions=(0.5,)), *answers(60, fractions=(0.5,))]
    assert clock_offset(apart) is None


@pytest.mark.parametrize(
    ("headers", "correction_s"),
    [
        ({"date": formatdate(NOW + 60, usegmt=True)}, 61),
        ({"date": formatdate(NOW, usegmt=True)}, 0),
        # Without a zone, as RFC 5322 has it, it is UTC all the same.
        ({"date": formatdate(NOW + 60, usegmt=True).replace("GMT", "-0000")}, 61),
        ({"date": "yesterday"}, None),
        ({"date": formatdate(NOW, usegmt=True), "age": "60"}, None),
    ],
)
async def test_the_servers_date_is_read(
    headers: dict[str, str], correction_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_clock, "_BETWEEN_SECONDS", 0.0)
    # The test's server sends a date of its own first, and the last one counts.
    monkeypatch.setattr("http.server.BaseHTTPRequestHandler.date_time_string", lambda *_: headers["date"])
    sent = {name: value for name, value in headers.items() if name != "date"}
    with answering(Answer(), Answer({}, headers=sent)) as state:
        server = split_endpoint(state.url)
        async with Client(ProfileConfig(url=state.url), server) as client:
            found = await read_clock(server, client, wall=lambda: NOW * S)
    assert (None if found is None else found.correction_ms / 1000) == correction_s


async def test_a_server_that_is_gone_has_no_clock() -> None:
    server = split_endpoint("http://127.0.0.1:9")
    async with Client(ProfileConfig(url="http://127.0.0.1:9"), server) as client:
        assert await read_clock(server, client) is None


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the folder of a client that sent requests index, index + of, ... of twelve."""

    def write(index: int, of: int = 3, clock: ClockOffset | None = None, hashes: str = "a", **settings: Any) -> Path:
        shared: dict[str, Any] = {"url": "http://h:1", "concurrency": 2, "temperature": 0, "request_rate": 9.0}
        config = ProfileConfig.create(**{**shared, "share": f"{index}/{of}", "warmup_request_count": 6, **settings})
        records = [
            replace(record, start_ns=record.index * 10_000_000, end_ns=record.end_ns + record.index * 10_000_000)
            for record in simulated_run(7, 12)[index::of]
        ]
        result = RunResult(
            config=config,
            url="http://h:1/v1",
            model="m",
            owned_by=None,
            dataset=DatasetInfo("p.jsonl", "/p.jsonl", 12, has_categories=False, turns=12, file_hashes=(hashes,)),
            wall_offset_ns=NOW * S,
            records=records,
            clock=clock,
        )
        folder = tmp_path / "runs" / f"client-{len(list(tmp_path.glob('runs/*')))}"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_bytes(config_yaml(result, ReportSettings()))
        (folder / "profile_export.jsonl").write_bytes(b"".join(record_line(r, NOW * S) for r in records))
        (folder / "profile_export_aiperf.json").write_bytes(summary_json(result, summarise(records)))
        return folder

    return write


def pooled(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["report", str(folder.parent), "--pool", *options], env={"COLUMNS": "200"})


def said(result: Result) -> list[str]:
    """Return what is said of the clients, of all that is said."""
    return [line for line in result.stderr.splitlines() if line.startswith("note: ") and "prompt prompt" not in line]


def words(text: str) -> str:
    return " ".join(text.split())


def test_whole_shares_are_one_run(write: Write) -> None:
    ahead = ClockOffset(least_ms=61_000, greatest_ms=62_000, correction_ms=61_500, answers=5)
    near = ClockOffset(least_ms=-400, greatest_ms=610, correction_ms=0, answers=5)
    for index, clock in ((2, near), (0, ahead), (1, None)):
        folder = write(index, clock=clock, start_at="2026-12-01T12:00:00Z")
    result = pooled(folder, "--full")
    assert (result.exit_code, said(result)) == (0, [])
    shown = words(result.stdout)
    assert "3 clients as one run, all shares of 3, 4 + 4 + 4 = 12 requests" in shown
    assert "first requests within 0.02 s, all under way for" in shown
    assert (
        "known of 2 of 3 to within 1.01 s by the dates of the server's answers, and corrected: client-1 by +61.5 s"
        in shown
    )
    # The rate, the prompts and the warm-up are those of the whole run, and the slots those of all clients.
    assert "9 requests/s, poisson, concurrency at most 6, 6 warm-up requests apart" in shown
    assert "p.jsonl (12)" in shown
    # Requests stand in the order of the whole run, under the numbers that they have in it.
    together = load_run(find_runs([folder.parent])).result.profiled()
    assert [(record.index, record.prompt_id) for record in together] == [(n, f"prompt-{n}") for n in range(12)]
    document = json.loads(pooled(folder, "--format", "json").stdout)["pooled_runs"][0]["clients"]
    assert [client["share"] for client in document["each"]] == ["2/3", "0/3", "1/3"]
    assert document["each"][1]["clock"]["correction_ms"] == 61_500
    assert document["missing_shares"] == []
    assert document["common_seconds"] > 0


def test_a_missing_share_is_said(write: Write) -> None:
    write(0, of=4)
    result = pooled(write(2, of=4))
    assert result.exit_code == 0
    assert "missing: 2 shares of 4 (1/4, 3/4)" in words(result.stderr)
    assert "2 clients as one run, 2 shares of 4 missing, 3 + 3 = 6 requests" in words(result.stdout)
    # One client alone is not the run either.
    (alone,) = [path for path in write(1, of=9).parent.iterdir() if path.name == "client-2"]
    shown = CliRunner().invoke(app, ["report", str(alone), "--pool"], env={"COLUMNS": "200"})
    assert "missing: 8 shares of 9 (0/9, 2/9, 3/9, 4/9, 5/9, ...)" in words(shown.stderr)


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({"index": 1}, {"index": 1}, "'client-0' and 'client-1' are both share 1/3: their requests would count twice"),
        ({"index": 1}, {"index": 2, "of": 4}, "'client-0' is share 1/3 and 'client-1' is share 2/4: not of the same"),
        ({"index": 1}, {"index": 2, "share": None}, "'client-0' is share 1/3 of a run, and 'client-1' has no share"),
        ({"index": 0}, {"index": 1, "temperature": 0.7}, "--temperature 0.0 in client-0 and 0.7 in client-1"),
        ({"index": 0}, {"index": 1, "request_rate": 3.0}, "--request-rate 9.0 in client-0 and 3.0 in client-1"),
        ({"index": 0}, {"index": 1, "random_seed": 5}, "--random-seed 0 in client-0 and 5 in client-1"),
        ({"index": 0}, {"index": 1, "max_tokens": 5}, "--max-tokens not given in client-0 and 5 in client-1"),
        (
            {"index": 0},
            {"index": 1, "hashes": "b"},
            "the content of --input-file differs between client-0 and client-1",
        ),
        ({"index": 0}, {"index": 1, "extra_inputs": {"secret": 1}}, "--extra-inputs differs between client-0 and"),
    ],
)
def test_clients_of_no_single_run_are_refused(
    first: dict[str, Any], second: dict[str, Any], why: str, write: Write
) -> None:
    write(**first)
    folder = write(**second)
    result = pooled(folder)
    assert result.exit_code == 2
    assert why in words(result.stderr)
    assert "Traceback" not in result.stderr
    # Without --pool, each is a run of its own.
    assert CliRunner().invoke(app, ["report", str(folder.parent)]).exit_code == 0


def test_what_each_client_may_be_told_by_itself(write: Write) -> None:
    write(0, concurrency=5, workers=2)
    write(1, server_metrics=False, start_at="2026-12-01T12:00:00Z")
    result = pooled(write(2, export_level="raw"))
    assert (result.exit_code, said(result)) == (0, [])
    assert "concurrency at most 9" in result.stdout


def test_clients_without_shares_are_told_apart_and_added_up(write: Write) -> None:
    write(0, share=None, request_count=4)
    result = pooled(write(1, share=None, request_rate=4.0, request_count=4, hashes="b"))
    assert (result.exit_code, said(result)) == (0, [])
    assert "2 clients as one run, 4 + 4 = 8 requests" in words(result.stdout)
    assert "13 requests/s" in result.stdout
    assert "p.jsonl (24)" in result.stdout
    result = pooled(write(2, share=None, temperature=0.7))
    assert result.exit_code == 0
    assert "more than their prompts and load: --temperature 0.0 in client-0 and 0.7 in client-2" in words(result.stderr)


def test_a_killed_client_has_its_share_in_its_configuration(write: Write) -> None:
    write(0)
    folder = write(1)
    (folder / "profile_export_aiperf.json").unlink()
    assert RunFolder(folder).model == "m"
    result = pooled(folder)
    assert "missing: 1 share of 3 (2/3)" in words(result.stderr)
    assert "4 + 4 = 8 requests" in words(result.stdout)


def test_many_clients_take_a_line(write: Write) -> None:
    for index in range(12):
        folder = write(index, of=12)
    shown = words(pooled(folder).stdout)
    assert "12 clients as one run, all shares of 12, 12 requests, 1 to 1 each" in shown
