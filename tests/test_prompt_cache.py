"""What the server had of the prompts in its prefix cache, and what that spoils."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from aiperf_spec.analysis.comparison.mismatches import MismatchKind, Run, RunSettings, mismatches
from aiperf_spec.analysis.comparison.pairing import pair_up
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import load_run, run_settings
from aiperf_spec.artifacts.read.summary_file import SummaryFile
from aiperf_spec.artifacts.write.server_metrics_files import reconciliation_json
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.load.notices import run_notices
from aiperf_spec.metrics.prompt_cache import cached_share, firsts_and_repeats
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.response import last_usage
from aiperf_spec.models.run import DatasetInfo, Notice, NoticeKind, Phase, RequestRecord, RunResult
from aiperf_spec.models.server_metrics import (
    Agreement,
    MetricFigures,
    ReconciledCount,
    Reconciliation,
    SeriesFigures,
    ServerMetrics,
)
from aiperf_spec.profiling import profile
from aiperf_spec.render.comparison_tables import mismatch_text
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.server_side import reconciliation_table
from aiperf_spec.render.tables import latency_table
from aiperf_spec.server_metrics.reconciliation import reconcile
from aiperf_spec.wire.response_reader import ResponseReader
from tests.answering import OK, Answer, answering
from tests.records import MS, record

WIRE = Path(__file__).parent / "wire" / "sglang"


@pytest.mark.parametrize(
    ("name", "cached"),
    [
        ("opt-server-chat-nonstream.json", 1),
        ("opt-server-chat-stream-n2-usage.sse", 7),
        ("opt-server-chat-stream-usage.sse", 0),
        ("chat-stream-n1-usage.sse", None),
    ],
)
def test_what_sglang_sends_of_its_cache(name: str, cached: int | None) -> None:
    reader = ResponseReader(())
    reader.feed((WIRE / name).read_bytes(), 0)
    reader.finish(0)
    usage = last_usage(reader.responses)
    assert usage is not None
    assert usage.cached_tokens == cached


def sent(index: int, prompt: str, cached: int | None, *, warmup: bool = False, turn: int = 0) -> RequestRecord:
    made = record(index, start=index, contents=(5, 9), tokens=2, phase=Phase.WARMUP if warmup else Phase.PROFILING)
    return replace(made, prompt_id=prompt, turn_index=turn, start_ns=index * MS, cached_tokens=cached)


def test_the_share_is_of_the_requests_that_say() -> None:
    # A prompt has 7 tokens.
    assert cached_share([sent(0, "a", 0), sent(1, "b", 7), sent(2, "c", None)]) == 0.5
    assert cached_share([sent(0, "a", None)]) is None
    assert cached_share([replace(sent(0, "a", 3), input_tokens=None)]) is None


def test_repeats_are_of_a_prompt_and_a_turn_whoever_sent_it_first() -> None:
    records = [sent(0, "a", None, warmup=True), sent(1, "a", None), sent(2, "b", None), sent(3, "b", None, turn=1)]
    records += [sent(5, "b", None), sent(4, "b", None, turn=1)]
    firsts, repeats = firsts_and_repeats(records)
    assert [r.index for r in firsts] == [2, 3]
    assert [r.index for r in repeats] == [1, 4, 5]


COUNTS = Reconciliation(Agreement.EXACT, 4, {}, 4, True, (ReconciledCount("verify steps", "m", 1, 1),))


def cached_repeats(records: list[RequestRecord], reconciliation: Reconciliation | None = None) -> list[Notice]:
    run = profile_of(records, reconciliation)
    return [n for n in run_notices(run, proxy=None, adapter_warnings=()) if n.kind is NoticeKind.CACHED_REPEATS]


def profile_of(records: list[RequestRecord], reconciliation: Reconciliation | None = None) -> RunResult:
    return RunResult(
        config=ProfileConfig(url="http://h", temperature=0),
        url="http://h/v1",
        model="m",
        owned_by=None,
        dataset=DatasetInfo("built-in", None, 35, has_categories=True),
        wall_offset_ns=0,
        records=records,
        reconciliation=reconciliation,
    )


@pytest.mark.parametrize(
    ("cached", "counted", "said"),
    [
        (
            (0, 0, 6, 7),
            None,
            "2 requests of 4 repeated an earlier prompt of this run, and the server had 93 %",
        ),
        # As much of the prompts that are new: a common beginning.
        ((6, 6, 6, 6), None, None),
        ((None,) * 4, None, None),
        ((None,) * 4, (28, 14), "50 % of all prompt tokens, by its counters"),
        ((None,) * 4, (28, 1), None),
        ((None,) * 4, (28, 0), None),
        ((0, 0, 0, 0), (28, 14), None),
    ],
    ids=["repeats", "beginnings", "unsaid", "counters", "hardly", "nothing", "usage is nearer"],
)
def test_repeats_from_the_cache_are_told(
    cached: tuple[int | None, ...], counted: tuple[int, int] | None, said: str | None
) -> None:
    records = [sent(i, "abab"[i], each) for i, each in enumerate(cached)]
    reconciliation = None
    if counted is not None:
        reconciliation = replace(COUNTS, prompt_tokens=counted[0], cached_tokens=counted[1])
    notices = cached_repeats(records, reconciliation)
    if said is None:
        assert notices == []
    else:
        [notice] = notices
        assert said in notice_text(notice).replace("%", " %")
    # Without repeats there is nothing to say.
    assert cached_repeats([sent(i, str(i), each) for i, each in enumerate(cached)], reconciliation) == []


def test_cached_tokens_are_recorded_shown_and_read_back(tmp_path: Path) -> None:
    asked: set[str] = set()

    def respond(headers: dict[str, str]) -> Answer:
        # The first of each pair is new to the server.
        new = len(asked) % 2 == 0
        asked.add(headers["x-request-id"])
        usage = {**OK["usage"], "prompt_tokens_details": {"cached_tokens": 0 if new else 2}}  # type: ignore[dict-item]
        return Answer({**OK, "usage": usage})

    file = tmp_path / "p.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in "aabbcc"))
    with answering(respond) as server:
        config = ProfileConfig.create(
            url=server.url, model="m", temperature=0, input_file=file, artifact_dir=tmp_path / "run"
        )
        result = profile(config)
    assert [record.cached_tokens for record in result.profiled()] == [0, 2] * 3
    again = load_run([RunFolder(tmp_path / "run")]).result
    assert [record.cached_tokens for record in again.profiled()] == [0, 2] * 3
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(latency_table(summarise(again.records)))
    assert "Input, from cache" in console.file.getvalue()  # type: ignore[attr-defined]
    [notice] = [each for each in again.notices if each.kind is NoticeKind.CACHED_REPEATS]
    assert notice.values["count"] == 3


def mismatch_of(base: Run, candidate: Run) -> list[str]:
    found = mismatches(base, candidate, pair_up(base.records, candidate.records))
    return [mismatch_text(each) for each in found if each.kind is MismatchKind.PROMPT_CACHE]


def test_runs_whose_prompts_were_cached_differently_mislead() -> None:
    cold, warm = ([sent(i, str(i), cached) for i in range(6)] for cached in (0, 6))
    [said] = mismatch_of(Run("a", cold), Run("b", warm))
    assert "0% of prompt tokens; 86% of prompt tokens" in said
    assert mismatch_of(Run("a", warm), Run("b", warm)) == []
    unsaid = [sent(i, str(i), None) for i in range(6)]
    assert mismatch_of(Run("a", unsaid), Run("b", warm)) == []
    of = {share: Run("x", unsaid, RunSettings(cached_share=share)) for share in (None, 0.0, 0.05, 0.5)}
    assert len(mismatch_of(of[0.0], of[0.5])) == 1
    assert mismatch_of(of[0.0], of[0.05]) == mismatch_of(of[None], of[0.5]) == []


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("vllm:spec_decode_num_drafts", "vllm:prefix_cache_queries", "vllm:prefix_cache_hits"), (28, 21)),
        (("sglang:spec_verify_calls", "sglang:prompt_tokens", "sglang:cached_tokens"), (28, 21)),
        (("vllm:spec_decode_num_drafts", "other", "another"), (None, None)),
    ],
)
def test_the_servers_own_counters_of_its_cache(names: tuple[str, ...], found: tuple[Any, Any], tmp_path: Path) -> None:
    grown = {
        name: MetricFigures("counter", "", None, [SeriesFigures("u", {}, {"total": total})])
        for name, total in zip(names, (3.0, 28.0, 21.0), strict=True)
    }
    reconciliation = reconcile([sent(0, "a", None)], ServerMetrics([], 0, 1, grown))
    assert reconciliation is not None
    assert (reconciliation.prompt_tokens, reconciliation.cached_tokens) == found
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(reconciliation_table(reconciliation))
    shown = "Its prefix cache held 21 of 28 prompt tokens" in console.file.getvalue()  # type: ignore[attr-defined]
    assert shown is (found[1] is not None)
    summary = SummaryFile.model_validate({"spec_profile": {"reconciliation": reconciliation_json(reconciliation)}})
    assert summary.reconciliation == reconciliation
    assert run_settings(summary).cached_share == (0.75 if shown else None)
