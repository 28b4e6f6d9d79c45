"""Runs against a base: pairs, differences, verdicts, warnings."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console
from scipy import stats

from aiperf_spec.analysis.clusters import length_terms
from aiperf_spec.analysis.comparison.compare import (
    POOLED_LENGTH,
    POOLED_RATE,
    Comparison,
    ComparisonSet,
    Row,
    Verdict,
    compare,
)
from aiperf_spec.analysis.comparison.mismatches import MismatchKind, Run, RunSettings, side
from aiperf_spec.analysis.comparison.pairing import difference, pair_up
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.report import length
from aiperf_spec.artifacts.write.analysis_json import comparison_json
from aiperf_spec.models.run import ErrorKind, RequestRecord
from aiperf_spec.render.comparison_sentences import sentences
from aiperf_spec.render.comparison_tables import compare_report
from tests.bench.coverage import equal_run
from tests.records import failed
from tests.simulated_runs import request, simulated_run

SETTINGS = RunSettings(
    model="m", endpoint="chat", streaming=True, concurrency=4, prompts="prompts.jsonl", sampling={"temperature": 0}
)


def against(base: list[RequestRecord], candidate: list[RequestRecord], **settings: object) -> Comparison:
    runs = Run("base", base, SETTINGS), Run("candidate", candidate, replace(SETTINGS, **settings))  # type: ignore[arg-type]
    return compare(runs[0], [runs[1]]).comparisons[0]


def row(comparison: Comparison, tag: str) -> Row:
    return next(each for each in comparison.rows if each.tag == tag)


def kinds(comparison: Comparison) -> set[MismatchKind]:
    return {mismatch.kind for mismatch in comparison.mismatches}


def test_a_run_does_not_differ_from_itself() -> None:
    run = simulated_run(1, 24)
    found = against(run, run)
    assert len(found.pairing.pairs) == 24
    assert {each.verdict for each in found.rows} <= {Verdict.NONE_SHOWN, Verdict.NOT_JUDGED}
    assert all(each.difference.estimate.value == 0 for each in found.rows)
    assert not found.mismatches


def test_a_small_difference_is_found_when_paired_and_lost_when_not() -> None:
    base = simulated_run(7, 400)
    candidate = simulated_run(7, 400, shift=0.0175)
    paired, unpaired = pair_up(base, candidate), pair_up(base, [])
    close = difference(base, candidate, length_terms, paired)
    apart = difference(base, candidate, length_terms, unpaired)
    assert close.estimate.value == pytest.approx(0.05, abs=0.01)
    assert close.estimate.value == pytest.approx(apart.estimate.value)
    assert (close.estimate.low or 0) > 0
    assert (apart.estimate.low or 0) < 0
    assert row(against(base, candidate), POOLED_LENGTH).verdict is Verdict.BETTER
    assert row(against(candidate, base), POOLED_LENGTH).verdict is Verdict.WORSE


def test_the_paired_interval_is_the_jackknifes() -> None:
    base = [request(i, (i % 3,) * (4 + i % 2)) for i in range(6)]
    candidate = [request(i, (i % 2, 3)) for i in range(6)]
    found = difference(base, candidate, length_terms, pair_up(base, candidate), offset=1)
    assert found.base == length(base).value
    assert found.candidate == length(candidate).value
    left = []
    for out in range(6):
        before, after = ([r for r in run if r.index != out] for run in (base, candidate))
        left.append((length(after).value or 0) - (length(before).value or 0))
    jackknife = 5 / 6 * sum((value - sum(left) / 6) ** 2 for value in left)
    assert found.estimate.standard_error == pytest.approx(jackknife**0.5)
    smaller = min(sum(b) ** 2 / sum(x * x for x in b) for b in ([4, 5] * 3, [2] * 6))
    reach = stats.t.ppf(0.975, smaller - 1) * jackknife**0.5
    assert (found.estimate.high or 0) - (found.estimate.value or 0) == pytest.approx(reach)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.estimate.value or 0) / jackknife**0.5, smaller - 1))


def test_repeats_of_a_prompt_count_once() -> None:
    base = [request(i, (i % 4,) * 5, prompt=f"p{i % 8}") for i in range(16)]
    found = difference(base, base[:8], length_terms, pair_up(base, base[:8]))
    assert found.estimate.n == 8
    assert found.paired


def test_turns_pair_by_turn_and_scatter_by_conversation() -> None:
    base = [request(2 * i + turn, (i % 3,) * 4, prompt=f"p{i}", turn=turn) for i in range(6) for turn in range(2)]
    found = against(base, base)
    assert len(found.pairing.pairs) == 12
    assert row(found, POOLED_LENGTH).difference.estimate.n == 6


def test_what_has_no_partner_is_listed_and_in_no_difference() -> None:
    base, candidate = simulated_run(1, 20), simulated_run(1, 26)
    found = against(base, candidate)
    assert found.pairing.candidate_only == tuple((f"prompt-{i}", 0) for i in range(20, 26))
    assert row(found, POOLED_LENGTH).difference.estimate.value == 0
    assert "6 prompts in the candidate only and in no difference: prompt-20" in shown(found)


def test_line_numbers_of_different_files_are_no_pairs() -> None:
    base = [replace(request(i, (i % 3,) * 4, prompt=f"line-{i + 1}"), prompt_hash="") for i in range(9)]
    assert len(against(base, base).pairing.pairs) == 9
    found = against(base, base, prompts="other.jsonl")
    assert not found.pairing.paired
    assert MismatchKind.PROMPTS in kinds(found)
    assert not row(found, POOLED_LENGTH).difference.paired


def test_fewer_than_five_pairs_are_compared_as_independent() -> None:
    base, candidate = simulated_run(1, 12), simulated_run(1, 4)
    found = row(against(base, candidate), POOLED_LENGTH).difference
    assert (found.paired, found.estimate.reason, found.p) == (False, Missing.TOO_FEW, None)
    found = row(against(base[:9], simulated_run(2, 30)[20:]), POOLED_LENGTH).difference
    assert not found.paired
    assert found.estimate.low is not None


def test_what_misleads_is_said() -> None:
    run = simulated_run(1, 12)
    found = against(run, run, model="n", concurrency=9, sampling={"temperature": 1, "top_p": 0.9}, streaming=False)
    assert kinds(found) == {
        MismatchKind.MODEL,
        MismatchKind.CONCURRENCY,
        MismatchKind.SAMPLING,
        MismatchKind.STREAMING,
    }
    text = shown(found)
    assert "temperature 0, top_p not sent; temperature 1, top_p 0.9" in " ".join(text.split())
    assert "the load differs (concurrency 4; concurrency 9)" in " ".join(text.split())
    assert kinds(against(run, run, rate=2.5)) == {MismatchKind.CONCURRENCY}
    assert kinds(against(run, run, is_traced=True)) == {MismatchKind.CONCURRENCY}
    unknown = compare(Run("a", run), [Run("b", run, SETTINGS)]).comparisons[0]
    assert MismatchKind.CONFIGURATION_UNKNOWN in kinds(unknown)
    longer = [replace(each, input_tokens=99) for each in run]
    assert MismatchKind.PROMPT_TOKENS in kinds(against(run, longer))


@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        ([request(i, (1, 0, 1), k=6) for i in range(9)], MismatchKind.DRAFT_LENGTH),
        ([request(i, (1, 0, 1), engine="sglang", k=None, proposed=12) for i in range(9)], MismatchKind.ENGINE),
        ([request(i, (1, 0, 1), proposed=9) for i in range(9)], MismatchKind.DRAFTER_SHAPE),
        ([request(i, (1, 0, 1), proposed=30) for i in range(9)], MismatchKind.DRAFTER_SHAPE),
    ],
)
def test_rates_of_different_drafters_are_not_compared(candidate: list[RequestRecord], kind: MismatchKind) -> None:
    found = against([request(i, (1, 0, 1)) for i in range(9)], candidate)
    assert kind in kinds(found)
    rate = row(found, POOLED_RATE)
    assert rate.difference.estimate.reason is Missing.DIFFERENT_SHAPES
    assert rate.verdict is Verdict.NOT_JUDGED
    assert row(found, POOLED_LENGTH).difference.p is not None


@pytest.mark.parametrize(
    ("k", "accepted", "verdict"),
    [(6, (3, 3, 2), Verdict.DIFFERENT), (3, (1, 0, 0), Verdict.DIFFERENT), (6, (1, 0, 0), Verdict.WORSE)],
)
def test_what_a_changed_k_does_by_itself_is_neither_better_nor_worse(
    k: int, accepted: tuple[int, ...], verdict: Verdict
) -> None:
    base = [request(i, (2, 1, 1 + i % 2)) for i in range(12)]
    found = against(base, [request(i, (*accepted, i % 2), k=k) for i in range(12)])
    assert row(found, POOLED_LENGTH).verdict is verdict
    assert [setup.draft_lengths for setup in found.setups] == [(4,), (k,)]
    said = next(sentences(found))
    assert ("differs, as k alone would make it" in said) == (verdict is Verdict.DIFFERENT)
    assert ("is worse" in said) == (verdict is Verdict.WORSE)


def test_a_sentence_says_what_each_question_comes_to_and_where() -> None:
    base = [replace(each, category="ab"[i % 2]) for i, each in enumerate(simulated_run(3, 40))]
    better = [replace(each, category="ab"[i % 2]) for i, each in enumerate(simulated_run(3, 40, shift=0.15))]
    mixed = [after if after.category == "a" else before for before, after in zip(base, better, strict=True)]
    length_said, itl, ttft = sentences(against(base, mixed))
    assert re.fullmatch(r"Acceptance length is better: \d\.\d\d to \d\.\d\d, \+\d+\.\d %; better in a\.", length_said)
    assert itl.startswith("ITL is not judged (")
    assert ttft.startswith("TTFT is not judged (")
    assert "Acceptance length shows no difference" in next(sentences(against(base, base)))


def test_asking_an_engine_to_report_is_no_sampling() -> None:
    run = simulated_run(3, 9)
    asked = {"temperature": 0, "return_spec_tokens_details": True}
    assert MismatchKind.SAMPLING not in kinds(against(run, run, sampling=asked))
    found = against(run, run, sampling=asked | {"top_p": 0.5})
    [said] = [each for each in found.mismatches if each.kind is MismatchKind.SAMPLING]
    assert (said.base, said.candidate) == ("top_p not sent", "top_p 0.5")


def test_categories_are_compared_each() -> None:
    base = [replace(each, category="ab"[i % 2]) for i, each in enumerate(simulated_run(3, 40))]
    better = [replace(each, category="ab"[i % 2]) for i, each in enumerate(simulated_run(3, 40, shift=0.15))]
    mixed = [after if after.category == "a" else before for before, after in zip(base, better, strict=True)]
    categories = against(base, mixed).categories
    verdicts = {name: rows[0].verdict for name, rows in categories.items()}
    assert verdicts == {"a": Verdict.BETTER, "b": Verdict.NONE_SHOWN}


def test_chance_differences_stay_below_the_level() -> None:
    # Runs over the same prompts that differ by chance alone: a verdict may fall in 5 of 100, over all figures.
    found = 0
    for seed in range(100):
        comparison = against(simulated_run(seed, 30), simulated_run(seed, 30, noise=1))
        found += any(each.verdict not in (Verdict.NONE_SHOWN, Verdict.NOT_JUDGED) for each in comparison.rows)
    assert found <= 8


def shown(comparison: Comparison) -> str:
    from aiperf_spec.analysis.comparison.compare import ComparisonSet

    buffer = io.StringIO()
    console = Console(file=buffer, width=80, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(compare_report(ComparisonSet((comparison,), 3)))
    return buffer.getvalue()


def test_the_table_fits_eighty_columns() -> None:
    base = [replace(each, category="summarization of long texts") for each in simulated_run(3, 40)]
    text = shown(against(base, [replace(each, last_content_ns=9_876_543_210_000) for each in base]))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "corrected for 3 comparisons (Holm;" in " ".join(text.split())


def several(name: str, seed: int, draws: range, *, slower: float = 1.0) -> Run:
    runs = []
    for draw in draws:
        records = equal_run(seed, draw, prompts=8, repeats=1)
        for each in records:
            each.last_content_ns = round((each.last_content_ns or 0) * slower)
        runs.append(Run(f"{name}{draw}", records, SETTINGS))
    return side(runs)


def test_times_of_one_run_each_get_no_verdict_and_say_why() -> None:
    found = compare(several("a", 1, range(1)), [several("b", 1, range(1, 2), slower=3)]).comparisons[0]
    latency = row(found, "request_latency")
    assert (latency.verdict, latency.difference.p) == (Verdict.NOT_JUDGED, None)
    assert latency.difference.estimate.reason is Missing.FEW_RUNS
    assert latency.difference.estimate.has_interval
    assert row(found, "request_throughput").difference.estimate.reason is Missing.FEW_RUNS
    assert "un-to-run variation is unknown" in " ".join(shown(found).split())


def test_three_runs_a_side_are_judged_by_how_runs_scatter() -> None:
    base, candidate = several("a", 1, range(4)), several("b", 1, range(4, 7), slower=3)
    found = compare(base, [candidate]).comparisons[0]
    latency = row(found, "request_latency")
    assert latency.verdict is Verdict.WORSE
    means = [
        [sum((r.last_content_ns or 0) - r.start_ns for r in run.records) / 8e6 for run in each.repeats]
        for each in (base, candidate)
    ]
    welch = stats.ttest_ind(means[1], means[0], equal_var=False)
    low, high = welch.confidence_interval()
    assert latency.difference.p == pytest.approx(welch.pvalue)
    assert latency.difference.estimate.low == pytest.approx(low)
    assert latency.difference.estimate.high == pytest.approx(high)
    throughput = row(found, "request_throughput")
    assert throughput.difference.estimate.has_interval
    assert row(found, POOLED_LENGTH).difference.estimate.n == 8
    assert row(found, POOLED_LENGTH).difference.paired


def test_runs_of_one_side_that_differ_are_named() -> None:
    base = several("a", 1, range(3))
    other = replace(base.repeats[1], settings=replace(SETTINGS, concurrency=9))
    mixed = side([base.repeats[0], other, base.repeats[2]])
    assert kinds(compare(mixed, [base]).comparisons[0]) == {MismatchKind.CONCURRENCY}


def test_pairs_are_told_by_what_was_sent() -> None:
    base = [replace(request(i, (i % 3,) * 4, prompt=f"line-{i}"), prompt_hash=f"h{i}") for i in range(9)]
    renamed = [replace(each, prompt_id=f"other-{each.index}") for each in base]
    assert len(pair_up(base, renamed).pairs) == 9
    unrelated = [replace(each, prompt_hash=f"x{each.index}") for each in base]
    found = pair_up(base, unrelated)
    assert not found.pairs
    assert found.base_only[0] == ("line-0", 0)
    # Without a hash on both sides it is ids, where both runs read the same prompts: ids are often numbers of lines.
    old = [replace(each, prompt_hash="") for each in base]
    assert not pair_up(old, base).pairs
    assert len(pair_up(old, base, same_prompts=True).pairs) == 9
    assert not pair_up(old, old, same_prompts=False).pairs


def test_files_of_one_name_are_told_apart_by_their_content() -> None:
    run = simulated_run(1, 12)
    known = replace(SETTINGS, prompt_hashes=("a",))
    sides = Run("a", run, known), Run("b", run, replace(known, prompt_hashes=("b",)))
    assert kinds(compare(sides[0], [sides[1]]).comparisons[0]) == {MismatchKind.PROMPTS}
    moved = replace(known, prompts="renamed.jsonl", prompts_path="/elsewhere/renamed.jsonl")
    assert not compare(sides[0], [Run("b", run, moved)]).comparisons[0].mismatches
    old = replace(SETTINGS, prompts_path="/a/prompts.jsonl")
    elsewhere = Run("b", run, replace(old, prompts_path="/b/prompts.jsonl"))
    assert kinds(compare(Run("a", run, old), [elsewhere]).comparisons[0]) == {MismatchKind.PROMPTS}


def test_fewer_than_five_prompts_get_no_verdict_however_often_sent() -> None:
    base, candidate = (equal_run(1, draw, prompts=11, repeats=6, categories=11) for draw in (0, 1))
    found = against(base, candidate)
    assert len(found.categories) == 11
    for rows in found.categories.values():
        assert all(each.verdict is Verdict.NOT_JUDGED for each in rows)
        assert rows[0].difference.estimate.reason is Missing.TOO_FEW


def test_no_scatter_is_no_evidence() -> None:
    base, candidate = ([request(i, (depth,) * 6) for i in range(9)] for depth in (1, 2))
    found = row(against(base, candidate), POOLED_LENGTH)
    assert found.difference.estimate.reason is Missing.NO_SPREAD
    assert (found.difference.p, found.verdict) == (None, Verdict.NOT_JUDGED)
    same = row(against(base, base), POOLED_LENGTH)
    assert (same.difference.p, same.verdict) == (1.0, Verdict.NONE_SHOWN)


def test_steps_without_a_draft_are_compared_where_there_are_any() -> None:
    drafts = [tuple((i * j) % 5 for j in range(1, 11)) for i in range(20)]
    base = [request(i, each, undrafted=8 + i % 5) for i, each in enumerate(drafts)]
    better = [request(i, each, undrafted=i % 3) for i, each in enumerate(drafts)]
    comparison = against(base, better)
    assert row(comparison, "tokens_per_decode_step").verdict is Verdict.BETTER
    assert row(comparison, "drafted_share").verdict is Verdict.DIFFERENT
    assert row(comparison, POOLED_LENGTH).verdict is Verdict.NONE_SHOWN
    throughout = [request(i, (1, 2)) for i in range(6)]
    assert "drafted_share" not in {each.tag for each in against(throughout, throughout).rows}


def test_a_side_that_does_not_scatter_is_no_basis_for_a_verdict() -> None:
    always = [request(i, (4,) * 9, prompt=f"a{i}") for i in range(9)]
    others = [request(i, (i % 3, 1) * 9, prompt=f"b{i}") for i in range(9)]
    found = difference(always, others, length_terms, pair_up(always, others))
    assert (found.paired, found.estimate.reason, found.p) == (False, Missing.NO_SPREAD, None)
    # Over the same prompts it is the differences that scatter.
    same = [replace(each, prompt_hash=f"hash of a{each.index}") for each in others]
    assert difference(always, same, length_terms, pair_up(always, same)).p is not None


def test_failures_are_shown_on_both_sides() -> None:
    whole = simulated_run(3, 24)
    half = [*whole[:12], *(failed(i, ErrorKind.HTTP_STATUS, status=503) for i in range(12, 23))]
    half.append(failed(23, ErrorKind.CANCELLED))
    for base, candidate in ((whole, half), (half, whole)):
        found = against(base, candidate)
        assert MismatchKind.FAILURES in kinds(found)
        counts = row(found, "error_request_count")
        assert (counts.difference.base, counts.difference.candidate) == ((0, 11) if base is whole else (11, 0))
        assert counts.verdict is Verdict.NOT_JUDGED
        shown = " ".join(printed(found).split())
        assert "24 of 24 requests succeeded" in shown
        assert "12 of 24 requests succeeded, 11 failed, 1 cancelled" in shown
        document = json.loads(comparison_json(compare(Run("a", base), [Run("b", candidate)])))["comparisons"][0]
        assert document["requests"]["base"] == {
            "succeeded": 24 if base is whole else 12,
            "failed": 0 if base is whole else 11,
            "cancelled": 0 if base is whole else 1,
        }
        assert "failures" in [each["kind"] for each in document["misleads"]]


def printed(comparison: Comparison) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(compare_report(ComparisonSet((comparison,), 0)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
