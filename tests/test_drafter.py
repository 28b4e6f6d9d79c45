"""How a server says that it drafts, and what records gain by it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.adapters.llama_cpp import LlamaCppAdapter
from aiperf_spec.adapters.sglang import SGLangAdapter
from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import drafting
from aiperf_spec.analysis.report import analyse
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.matrix_figures import run_figures
from aiperf_spec.artifacts.read.run import load_run
from aiperf_spec.config.choices import ReportMetric, ReportSource
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.models.run import NoticeKind
from aiperf_spec.profiling import profile
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.run_report import run_report
from aiperf_spec.render.server_side import drafter_text
from tests.answering import Answer, answering
from tests.records import acceptance
from tests.support import Simulate

SGLANG = known_engines()["sglang"].drafter
CAPTURED = json.loads((Path(__file__).parent / "servers" / "sglang_server_info.json").read_text())


def page(method: str | None, steps: int, topk: int, width: int, *, adaptive: bool = False) -> dict[str, Any]:
    return {
        "speculative_algorithm": method,
        "speculative_num_steps": steps,
        "speculative_eagle_topk": topk,
        "speculative_num_draft_tokens": width,
        "speculative_adaptive": adaptive,
    }


def test_what_sglang_itself_says() -> None:
    drafter = SGLANG.read("sglang", CAPTURED)
    assert drafter == ServerDrafter(engine="sglang", method="NGRAM", branches=10, verified=8, overlaps=False)
    assert drafter_text(drafter) == "NGRAM, trees of 10 branches, 8 tokens verified a step"


@pytest.mark.parametrize(
    ("settings", "k", "shown"),
    [
        (page("EAGLE3", 3, 1, 4), 3, "EAGLE3, chains of 3 tokens"),
        (page("standalone", 1, 1, 2), 1, "standalone, chains of 1 token"),
        (page("EAGLE", 5, 4, 16), 5, "EAGLE, trees of 4 branches, 16 tokens verified a step"),
        # As many tokens as a chain of the same depth would have: the counts would show no tree.
        (page("EAGLE", 3, 4, 4), None, "EAGLE, trees of 4 branches, 4 tokens verified a step"),
        (page("DFLASH", 1, 1, 16), None, "DFLASH, 16 tokens verified a step"),
        (page("EAGLE", 3, 1, 4, adaptive=True), None, "EAGLE, 4 tokens verified a step, of adaptive length"),
        ({"speculative_algorithm": "EAGLE3"}, None, "EAGLE3"),
        ({**page("EAGLE3", 3, 1, 4), "speculative_num_draft_tokens": "4"}, None, "EAGLE3"),
        (page(None, 3, 1, 4), None, "none, by the server's settings"),
        (page("NONE", 3, 1, 4), None, "none, by the server's settings"),
    ],
)
def test_a_page_of_settings(settings: dict[str, Any], k: int | None, shown: str) -> None:
    drafter = SGLANG.read("sglang", settings)
    assert drafter is not None
    assert (drafter.draft_length, drafter_text(drafter)) == (k, shown)


@pytest.mark.parametrize("settings", [{}, {"speculative_algorithm": 3}, {"speculative_algorithm": ["EAGLE"]}])
def test_a_page_that_names_no_method_says_nothing(settings: dict[str, Any]) -> None:
    assert SGLANG.read("sglang", settings) is None


def reported(histogram: dict[int, int], proposed: int) -> SpecDecodeAcceptanceRecord:
    return replace(acceptance(histogram, proposed), engine="sglang")


CHAIN = ServerDrafter(engine="sglang", method="EAGLE3", depth=3, branches=1, verified=4, drafts_chains=True)


def test_a_chain_is_completed_by_its_draft_length() -> None:
    completed = CHAIN.completed(reported({0: 4, 3: 1}, 15))
    assert (completed.num_spec_tokens, completed.proposed) == (3, 15)
    known = drafting([completed] * 5)
    assert (known.k, known.full, known.at_risk_known, known.assumed) == (3, True, True, False)


@pytest.mark.parametrize(
    ("drafter", "record", "counted"),
    [
        (CHAIN, reported({0: 4, 3: 1}, 20), False),
        (replace(CHAIN, adaptive=True), reported({0: 4, 3: 1}, 15), False),
        # Deeper than the page allows: another server answered.
        (CHAIN, reported({0: 9, 4: 1}, 30), True),
        (replace(CHAIN, verified=None), reported({0: 4, 3: 1}, 15), True),
        (replace(CHAIN, engine="other"), reported({0: 4, 3: 1}, 20), True),
        (CHAIN, replace(reported({0: 4, 3: 1}, 20), num_spec_tokens=5), True),
    ],
    ids=["other width", "adaptive", "too deep", "no width", "other engine", "reported"],
)
def test_what_the_page_does_not_fit_is_not_completed(
    drafter: ServerDrafter, record: SpecDecodeAcceptanceRecord, counted: bool
) -> None:
    completed = drafter.completed(record)
    assert completed.num_spec_tokens == record.num_spec_tokens
    assert (completed.proposed is not None) is counted
    if not counted:
        assert drafting([completed], assume_chain=True).reason is Missing.PROPOSED_NOT_COUNTED


@pytest.mark.parametrize(("cap", "proposed"), [(0.0, 28), (None, 28), (3.5, None)])
def test_sglang_does_not_count_drafts_that_it_cut_before_it_verified_them(cap: Any, proposed: int | None) -> None:
    details = {
        "spec_verify_ct": 4,
        "spec_num_correct_drafts": 3,
        "spec_num_proposed_drafts": 28,
        "spec_correct_drafts_histogram": [2, 1, 1],
        "spec_cap_length": cap,
    }
    record = SGLangAdapter.adapt([ParsedResponse(0, spec_decode_stats=details)])
    assert record is not None
    assert record.proposed == proposed
    block = replace(CHAIN, method="DSPARK", depth=1, verified=8, drafts_chains=False)
    assert block.completed(record).proposed == proposed


def test_a_tree_is_seen_as_one() -> None:
    tree = ServerDrafter(engine="sglang", method="EAGLE", depth=5, branches=4, verified=16, drafts_chains=True)
    assert drafting([tree.completed(reported({0: 4, 5: 1}, 75))]).reason is Missing.NOT_A_CHAIN


def test_totals_of_requests_that_count_no_proposals_have_no_rate() -> None:
    counted, mixed = CategoryTotals(), CategoryTotals()
    for i in range(8):
        counted.add(str(i), 1, 3, 5, 15)
        mixed.add(str(i), 1, 3, 5, 15 if i else None)
    assert counted.rate().value == 20
    assert (mixed.rate().value, mixed.rate().reason) == (None, Missing.PROPOSED_NOT_COUNTED)
    counted.merge(mixed)
    assert counted.rate().value is None
    assert counted.length().value == 1.6


def test_a_rate_is_over_the_prompts_for_which_something_was_proposed() -> None:
    proposing, with_silent = CategoryTotals(), CategoryTotals()
    for i in range(12):
        for totals in (proposing, with_silent):
            totals.add(str(i), 1, i % 4, 5, 15)
        with_silent.add(f"silent-{i}", 1, 0, 5, 0)
    rate = with_silent.rate()
    assert rate == proposing.rate()
    assert rate.n == 12
    assert with_silent.length().n == 24


def test_a_run_on_sglang_knows_its_draft_length(simulate: Simulate, tmp_path: Path) -> None:
    simulator = simulate("sglang", num_spec_tokens=4)
    config = ProfileConfig.create(
        url=simulator.url,
        temperature=0,
        request_count=12,
        workers=2,
        concurrency=2,
        extra_inputs={"return_spec_tokens_details": True},
        artifact_dir=tmp_path / "run",
    )
    result = profile(config)
    assert result.drafter == replace(CHAIN, depth=4, verified=5, overlaps=False)
    assert {record.acceptance.num_spec_tokens for record in result.records if record.acceptance} == {4}
    analysis = analyse(result.records)
    assert analysis.run.curve.drafting.full
    assert len(analysis.run.what_if.lengths) == 4
    again = load_run([RunFolder(tmp_path / "run")]).result
    assert again.drafter == result.drafter
    assert [r.acceptance for r in again.profiled()] == [r.acceptance for r in result.profiled()]


@pytest.mark.parametrize(
    ("settings", "said"),
    [(page("EAGLE", 3, 1, 4, adaptive=True), "changes the length"), (page("EAGLE", 7, 1, 8), "keep to its settings")],
)
def test_a_server_that_does_not_count_its_proposals_has_no_rate(
    settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    body = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11},
        "sglext": {
            "spec_tokens_details": {
                "spec_verify_ct": 4,
                "spec_num_correct_drafts": 3,
                "spec_num_proposed_drafts": 12,
                "spec_correct_drafts_histogram": [2, 1, 1],
            }
        },
    }
    models = {"object": "list", "data": [{"id": "m", "owned_by": "sglang"}], **settings}
    with answering(Answer(body), models) as server:
        config = ProfileConfig.create(
            url=server.url, request_count=6, temperature=0, streaming=False, artifact_dir=tmp_path / "run"
        )
        result = profile(config)
    [notice] = [notice_text(each) for each in result.notices if each.kind is NoticeKind.PROPOSED_NOT_COUNTED]
    assert notice.startswith("6 requests of 6 have no draft acceptance rate")
    assert said in notice
    again = load_run([RunFolder(tmp_path / "run")]).result
    for records in (result.records, again.records):
        summary = summarise(records)
        assert summary.run_values["spec_decode_token_weighted_acceptance_length"] == 1.75
        named = {*summary.run_values, *summary.record_stats}
        assert not {name for name in named if "rate" in name or "draft_tokens" in name} - {
            "total_accepted_draft_tokens",
            "spec_decode_accepted_draft_tokens",
        }
        assert analyse(records).run.rate.reason is Missing.PROPOSED_NOT_COUNTED
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(run_report(result, summarise(result.records), settings=ReportSettings(rows=2, full=True)))
    assert "3/–" in console.file.getvalue()  # type: ignore[attr-defined]
    figures = run_figures(RunFolder(tmp_path / "run"), ReportMetric.ACCEPT_RATE, ReportSource.RECORDS)
    assert {pool.rate().value for pool in figures.pools.values()} == {None}


LLAMA_CPP = LlamaCppAdapter.engine_description.drafter
SLOT = {"id": 0, "n_ctx": 2048, "speculative": True, "is_processing": False}
"""As llama-server b11434 answers on /slots before its first request."""


@pytest.mark.parametrize(
    ("page", "method"),
    [
        ([{**SLOT, "params": {"speculative.types": "none,draft-simple"}}], "draft-simple"),
        ([{**SLOT, "params": {"speculative.types": "none,draft-mtp,ngram-mod"}}], "draft-mtp,ngram-mod"),
        ([{**SLOT, "speculative": False, "params": {"speculative.types": "none,draft-simple"}}], None),
        ([{**SLOT, "speculative": False}], None),
    ],
)
def test_llama_cpps_slots_say_how_it_drafts(page: Any, method: str | None) -> None:
    found = LLAMA_CPP.read("llama_cpp", page)
    assert found is not None
    assert (found.engine, found.method, found.draft_length) == ("llama_cpp", method, None)


@pytest.mark.parametrize("page", [[SLOT], [], [3], None, "x", {"error": {"code": 501}}, [{**SLOT, "params": []}]])
def test_slots_that_do_not_say_so_leave_it_open(page: Any) -> None:
    assert LLAMA_CPP.read("llama_cpp", page) is None
