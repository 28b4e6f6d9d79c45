"""Runs against a base: pairs, differences, verdicts, warnings."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from aiperf_spec.analysis.clusters import length_terms
from aiperf_spec.analysis.comparison.compare import POOLED_LENGTH, POOLED_RATE, Comparison, Row, Verdict, compare
from aiperf_spec.analysis.comparison.mismatches import MismatchKind, Run, RunSettings
from aiperf_spec.analysis.comparison.pairing import difference, pair_up
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.report import length
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.render.comparison_tables import compare_report
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


def test_the_paired_interval_is_that_of_the_linearised_differences() -> None:
    base = [request(i, (i % 3,) * (4 + i % 2)) for i in range(6)]
    candidate = [request(i, (i % 2, 3)) for i in range(6)]
    found = difference(base, candidate, length_terms, pair_up(base, candidate), offset=1)
    assert found.base == length(base).value
    assert found.candidate == length(candidate).value
    terms = []
    for before, after in zip(base, candidate, strict=True):
        (a, b), (c, d) = length_terms(before) or (0, 0), length_terms(after) or (0, 0)
        terms.append((c - ((found.candidate or 0) - 1) * d) / 12 - (a - ((found.base or 0) - 1) * b) / 27)
    assert found.estimate.standard_error == pytest.approx((6 / 5 * sum(t * t for t in terms)) ** 0.5)


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
    base = [request(i, (i % 3,) * 4, prompt=f"line-{i + 1}") for i in range(9)]
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
