"""Where drafts die, and what is known of how they were made."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from aiperf_spec.analysis import analyse
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.positions import MAX_POSITIONS, Drafting, PositionCurve, drafting, position_curve, tally_all
from aiperf_spec.analysis.whatif import WhatIf, what_if
from aiperf_spec.artifacts.read.records import load_records
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.render.analysis import what_if_table
from tests.simulated_runs import request, simulated_run

REAL = Path(__file__).parent / "vllm_draft"


def curve(records: list[RequestRecord], *, assume_chain: bool = False) -> PositionCurve:
    known = known_of(records, assume_chain=assume_chain)
    return position_curve(known, tally_all(records, known))


def known_of(records: list[RequestRecord], *, assume_chain: bool = False) -> Drafting:
    return drafting([r.acceptance for r in records if r.acceptance is not None], assume_chain=assume_chain)


def modelled(records: list[RequestRecord], *, cost: float | None = None, assume_chain: bool = False) -> WhatIf:
    known = known_of(records, assume_chain=assume_chain)
    return what_if(records, known, tally_all(records, known), draft_cost=cost, assume_chain=assume_chain)


def real(tmp_path: Path, k: int) -> list[RequestRecord]:
    (tmp_path / "profile_export.jsonl").write_bytes((REAL / f"k{k}.jsonl").read_bytes())
    return list(load_records(tmp_path).records)


def test_full_drafts_give_both_curves() -> None:
    records = [request(0, (0, 1, 2, 3), k=3), request(1, (0, 0, 3, 1), k=3)]
    first, second, third = curve(records).positions
    assert [(p.accepted, p.at_risk) for p in (first, second, third)] == [(5, 8), (3, 5), (2, 3)]
    assert first.survival.value == first.conditional.value == 5 / 8
    assert second.survival.value == 3 / 8
    assert second.conditional.value == 3 / 5
    assert third.conditional.value == 2 / 3


def test_short_drafts_are_at_risk_as_far_as_they_proposed() -> None:
    record = request(0, (1, 1, 0, 3), drafted=(1, 3, 2, 3), k=3)
    found = curve([record])
    assert found.drafting == Drafting(3, full=False, at_risk_known=True)
    # The first step accepted all that it proposed: it did not fail at position 2, it never came there.
    assert [(p.accepted, p.at_risk) for p in found.positions] == [(3, 4), (1, 2), (1, 1)]


def test_a_request_that_drafted_nothing_was_at_risk_nowhere() -> None:
    found = curve([request(0, (0, 1, 3), k=3), request(1, (0, 0), k=0)])
    assert [(p.accepted, p.steps, p.at_risk) for p in found.positions] == [(2, 5, 3), (1, 5, 2), (1, 5, 1)]


def test_short_drafts_without_single_steps_give_the_survival_alone() -> None:
    found = curve([request(0, (1, 0, 2), k=3, proposed=7)])
    assert found.drafting.reason is Missing.SHORT_DRAFTS
    assert [p.survival.value for p in found.positions] == [pytest.approx(2 / 3), pytest.approx(1 / 3), 0]
    assert {p.conditional.reason for p in found.positions} == {Missing.SHORT_DRAFTS}
    assert {p.at_risk for p in found.positions} == {None}


@pytest.mark.parametrize("engine", ["vllm", "tensorrt_llm", "sglang"])
def test_each_engines_record_gives_what_it_proves(engine: str) -> None:
    # SGLang reports no k, and no engine but vLLM single steps.
    k = None if engine == "sglang" else 4
    accepted = (0, 1, 4, 2)
    records = [request(i, accepted, k=k, engine=engine, proposed=16, per_step=engine == "vllm") for i in range(6)]
    found = curve(records)
    assert [p.survival.value for p in found.positions] == [0.75, 0.5, 0.25, 0.25]
    assert found.drafting.at_risk_known == (engine != "sglang")
    lengths = modelled(records)
    if engine == "sglang":
        assert found.positions[0].conditional.reason is Missing.DRAFT_LENGTH_UNKNOWN
        assert lengths.reason is Missing.DRAFT_LENGTH_UNKNOWN
        chain = modelled(records, assume_chain=True)
        assert chain.drafting == Drafting(4, full=True, at_risk_known=True, assumed=True)
        assert [each.length.value for each in chain.lengths] == [1.75, 2.25, 2.5, 2.75]
    else:
        assert lengths.reason is None


def test_a_varying_proposal_without_k_is_no_chain_of_one_length() -> None:
    records = [request(0, (1, 2), k=None, proposed=8), request(1, (0, 0), k=None, proposed=9)]
    assert modelled(records, assume_chain=True).reason is Missing.DRAFT_LENGTH_UNKNOWN
    deeper = [request(0, (3, 0), k=None, proposed=4)]
    assert modelled(deeper, assume_chain=True).reason is Missing.DRAFT_LENGTH_UNKNOWN


def test_more_proposed_than_k_is_a_tree() -> None:
    records = [request(i, (0, 1, 2), k=2, proposed=21) for i in range(6)]
    assert modelled(records).reason is Missing.NOT_A_CHAIN
    assert modelled(records, assume_chain=True).lengths[1].length.value == pytest.approx(2)


def test_acceptance_that_ends_abruptly_looks_like_a_tree() -> None:
    # A tree of 6 nodes and depth 2: half of the steps go all the way, none ever further.
    records = [request(i, (0, 2) * 20, k=6) for i in range(6)]
    assert modelled(records).reason is Missing.LOOKS_LIKE_A_TREE
    assert modelled(records, assume_chain=True).reason is None
    few = [request(i, (0, 2), k=6) for i in range(6)]
    assert modelled(few).reason is None


def test_a_plug_ins_engine_is_taken_for_a_chain_only_when_told() -> None:
    records = [request(i, (0, 1, 2), k=2, engine="acme") for i in range(6)]
    assert modelled(records).reason is Missing.UNKNOWN_DRAFTER
    assert modelled(records, assume_chain=True).reason is None


def test_different_draft_lengths_in_one_run() -> None:
    records = [request(0, (0, 2), k=2), request(1, (3, 1), k=3, proposed=5)]
    found = curve(records)
    assert found.drafting.reason is Missing.MIXED_DRAFT_LENGTHS
    assert len(found.positions) == 3
    known = curve([request(0, (0, 2), k=2), request(1, (3, 1), k=3)])
    assert [(p.accepted, p.at_risk) for p in known.positions] == [(3, 4), (2, 3), (1, 1)]


def test_nothing_at_risk_is_said_rather_than_guessed() -> None:
    record = request(0, (1, 0), drafted=(1, 1), k=3)
    lengths = modelled([record] * 6).lengths
    assert lengths[0].length.value == 1.5
    assert [each.length.reason for each in lengths[1:]] == [Missing.NONE_AT_RISK] * 2
    dead = modelled([request(i, (0, 0), k=3) for i in range(6)]).lengths
    assert [each.length.value for each in dead] == [1, 1, 1]


def test_an_absurd_draft_length_is_cut_off() -> None:
    found = analyse([request(i, (0, 1, 2), k=10_000) for i in range(6)])
    assert len(found.run.curve.positions) == len(found.run.what_if.lengths) == MAX_POSITIONS


def test_short_drafts_are_modelled_both_ways() -> None:
    record = request(0, (1, 0, 1, 2), drafted=(1, 2, 2, 2), k=2)
    found = modelled([record])
    second = found.lengths[1]
    assert found.rough
    # Had the first draft gone on, its second token would have been right with c(2) = 1 / 2, and saved the next step.
    assert second.length.value == pytest.approx(8 / 3.5)
    assert second.as_drafted.value == 2


def test_at_k_full_drafts_give_the_runs_own_length_and_interval() -> None:
    run = simulated_run(5, 40)
    analysis = analyse(run)
    last = analysis.run.what_if.lengths[-1].length
    assert len(analysis.run.what_if.lengths) == 4
    for name in ("value", "low", "high"):
        assert getattr(last, name) == pytest.approx(getattr(analysis.run.length, name))


def test_a_draft_cost_finds_the_best_length_and_what_does_not_differ_from_it() -> None:
    run = simulated_run(5, 200)
    free, dear = modelled(run, cost=0), modelled(run, cost=5)
    assert free.best == 4
    assert (dear.best, dear.ties) == (0, ())
    half = modelled(run, cost=0.4)
    speeds = [each.speedup.value for each in half.lengths if each.speedup is not None]
    assert half.best == 1 + speeds.index(max(speeds))  # type: ignore[type-var]
    assert speeds[1] == pytest.approx((half.lengths[1].length.value or 0) / 1.8)
    assert half.best not in half.ties
    assert modelled(run).best is None


def test_best_lengths_differ_by_category() -> None:
    easy = [request(i, (4, 4, 3, 4), category="coding") for i in range(9)]
    hard = [request(i + 9, (0, 1, 0, 0), category="writing") for i in range(9)]
    found = analyse([*easy, *hard], ReportSettings(draft_cost=0.3)).categories
    assert found["coding"].what_if.best == 4
    assert found["writing"].what_if.best == 0


@pytest.mark.parametrize(("k", "measured"), [(1, 1.479), (2, 1.696), (4, 1.831)])
def test_a_real_run_predicts_shorter_drafts_within_half_a_percent(k: int, measured: float, tmp_path: Path) -> None:
    long, short = real(tmp_path, 6), analyse(real(tmp_path, k))
    predicted = analyse(long).run.what_if.lengths[k - 1].length
    assert short.run.length.value == pytest.approx(measured, abs=5e-4)
    assert predicted.value == pytest.approx(short.run.length.value, rel=0.005)
    assert predicted.low is not None
    assert predicted.low < measured < (predicted.high or 0)


def test_without_single_steps_a_what_if_is_rough_and_its_intervals_are_wider(tmp_path: Path) -> None:
    long = real(tmp_path, 6)
    summed = [
        replace(record, acceptance=replace(record.acceptance, per_step_accepted=None))
        for record in long
        if record.acceptance is not None
    ]
    exact, rough = modelled(long, cost=0.15), modelled(summed, cost=0.15)
    assert (exact.rough, rough.rough, modelled([*long[:12], *summed[12:]]).rough) == (False, True, True)
    for one, other in zip(exact.lengths, rough.lengths, strict=True):
        for narrow, wide in ((one.length, other.length), (one.speedup, other.speedup)):
            assert narrow is not None
            assert wide is not None
            assert wide.value == pytest.approx(narrow.value, rel=0.02)
            assert wide.low is not None
            assert wide.high is not None
            assert wide.low <= narrow.value <= wide.high  # type: ignore[operator]
    widths = [(each.length.high or 0) - (each.length.low or 0) for each in (exact.lengths[0], rough.lengths[0])]
    assert widths[1] - widths[0] == pytest.approx(2 * 0.2 * ((rough.lengths[0].length.value or 0) - 1), rel=0.1)
    whole, own = rough.lengths[-1].length, analyse(summed).run.length
    assert (whole.value, whole.low, whole.high) == pytest.approx((own.value, own.low, own.high))
    assert set(rough.ties) > set(exact.ties)
    console = Console(file=io.StringIO(), width=200)
    for found in (exact, rough):
        console.print(what_if_table(found))
    assert console.file.getvalue().count("Rough: from histograms") == 1  # type: ignore[attr-defined]


def test_a_modelled_speed_up_is_over_all_decode_steps() -> None:
    plain = modelled([request(i, (0, 1, 4, 3)) for i in range(6)], cost=0.1)
    often = modelled([request(i, (0, 1, 4, 3), undrafted=12) for i in range(6)], cost=0.1)
    for one, other in zip(plain.lengths, often.lengths, strict=True):
        assert other.length.value == one.length.value
        assert one.speedup is not None
        assert other.speedup is not None
        steps = 12 / (one.length.value or 0)
        assert one.speedup.value == pytest.approx(12 / (steps * (1 + 0.1 * one.k)))
        assert other.speedup.value == pytest.approx(24 / (steps * (1 + 0.1 * one.k) + 12))


def test_the_curve_is_what_vllm_counted_itself(tmp_path: Path) -> None:
    positions = curve(real(tmp_path, 6)).positions
    assert [p.accepted for p in positions] == [1181, 528, 258, 139, 97, 50]
    assert {p.steps for p in positions} == {2552}
