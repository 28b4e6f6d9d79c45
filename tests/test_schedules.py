"""Schedules of draft lengths by batch, and the files in which engines take them."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import yaml

from aiperf_spec.adapters.schedules import sglang_schedule, tensorrt_llm_schedule, vllm_schedule
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.sweep.schedule import configurations, schedule
from aiperf_spec.analysis.sweep.sweep import analyse_sweep
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.schedule import BatchRange, Configuration, NoConfiguration, Schedule
from aiperf_spec.models.server_metrics import MetricFigures, SeriesFigures, ServerMetrics
from aiperf_spec.models.sweep import CellRun
from aiperf_spec.render.sweep import configuration_text
from tests.simulated_sweeps import timed_sweep
from tests.test_sweep_analysis import latency_ms, true_crossover
from tests.test_tables import shown

MADE = Schedule(ranges=(BatchRange(1, 6, 4), BatchRange(7, 20, 2), BatchRange(21, 64, 0)))


def with_batches(cells: list[CellRun], share: float = 0.9, engines: int = 1, **more: object) -> list[CellRun]:
    """Return the cells of a vLLM server whose gauge was `share` of the concurrency."""
    found = []
    for cell in cells:
        series = [
            SeriesFigures("u", {"engine": str(i)}, {"avg": cell.cell.load.value * share / engines})
            for i in range(engines)
        ]
        metrics = {"vllm:num_requests_running": MetricFigures("gauge", "", None, series)}
        engine = "vllm" if cell.cell.k else None
        found.append(replace(cell, server_metrics=ServerMetrics([], 0, 1, metrics), engine=engine, **more))  # type: ignore[arg-type]
    return found


def test_ranges_change_where_the_speed_ups_are_equal_and_are_keyed_by_the_batch() -> None:
    loads = (1, 2, 4, 8, 16, 32, 64, 128)
    cells = with_batches(timed_sweep(1, latency_ms, (0, 2), loads, of_both=0.01, prompts=30))
    made = schedule(analyse_sweep(cells))
    assert isinstance(made, Schedule)
    (first, second) = made.ranges
    assert (first.first, first.k, second.k) == (1, 2, 0)
    # The crossing lies at a concurrency of 36, where the gauge said 0.9 of that.
    assert first.last == pytest.approx(0.9 * true_crossover(2), abs=2)
    assert (second.first, second.last) == (first.last + 1, 116)


def test_a_draft_length_stays_where_no_other_is_shown_to_be_faster() -> None:
    def latency(k: int, at: float) -> float:
        return 10.0 if not k else (5.0 if k == 2 else 8.0 if at < 4 else 5.0)

    cells = with_batches(timed_sweep(3, latency, (0, 2, 4), (1, 4, 8), of_both=0.1))
    analysis = analyse_sweep(cells)
    assert any(choice.ties for choice in analysis.answers.choices)
    made = schedule(analysis)
    assert isinstance(made, Schedule)
    assert [each.k for each in made.ranges] == [2]
    (found,) = configurations(analysis).values()
    assert isinstance(found, Configuration)
    assert found.limits[0].startswith("at a load of 4, 8 no draft length is shown to be the best one")


def test_a_schedule_without_a_verdict_or_a_difference_is_valid_and_says_so() -> None:
    once = with_batches(timed_sweep(1, latency_ms, (0, 2), (1, 64), of_both=0.01, repeats=1))
    (found,) = configurations(analyse_sweep(once)).values()
    assert isinstance(found, Configuration)
    assert [k for _, _, k in found.content["num_speculative_tokens_per_batch_size"]] == [2, 0]
    assert "without a verdict" in found.limits[0]
    alike = with_batches(timed_sweep(1, lambda k, at: 10.0 - k / 100, (0, 2, 4), (1, 8), of_run=0.2, of_both=0.02))
    analysis = analyse_sweep(alike)
    assert all(len(choice.ties) == 2 for choice in analysis.answers.choices)
    made = schedule(analysis)
    assert isinstance(made, Schedule)
    # One draft length throughout: the fastest that was measured at the smallest load.
    assert made.ranges == (BatchRange(1, 8, analysis.answers.choices[0].best),)


def test_without_the_running_batch_there_is_no_schedule() -> None:
    cells = timed_sweep(1, latency_ms, (0, 2), (1, 64), of_both=0.01)
    for cell in cells:
        for record in cell.records:  # as of bodies that came in one piece
            record.first_content_ns = None
    assert [point.running for point in analyse_sweep(cells).points] == [None] * 4
    assert schedule(analyse_sweep([])) is Missing.NO_BASELINE
    told = [replace(cell, engine="vllm") for cell in cells]
    assert configurations(analyse_sweep(told)) == {"vLLM": Missing.NO_BASELINE}
    assert configurations(analyse_sweep(cells)) == {}


@pytest.mark.parametrize("loads", [(1, 2, 4, 8, 16, 32, 64), (8, 9, 10, 64), (1, 256)])
def test_ranges_start_at_1_and_have_no_gap(loads: tuple[float, ...]) -> None:
    for seed in range(10):
        cells = with_batches(timed_sweep(seed, latency_ms, (0, 2, 4, 6), loads, of_both=0.02), share=0.7)
        made = schedule(analyse_sweep(cells))
        assert isinstance(made, Schedule)
        assert made.ranges[0].first == 1
        for before, after in zip(made.ranges, made.ranges[1:], strict=False):
            assert after.first == before.last + 1
            assert after.k != before.k
        assert all(each.first <= each.last for each in made.ranges)


def lookup(made: Schedule) -> dict[int, int]:
    return {batch: each.k for each in made.ranges for batch in range(each.first, each.last + 1)}


def test_vllms_ranges_are_inclusive_and_read_as_they_are_meant() -> None:
    found = vllm_schedule(MADE)
    assert isinstance(found, Configuration)
    ranges = found.content["num_speculative_tokens_per_batch_size"]
    assert ranges == [[1, 6, 4], [7, 20, 2], [21, 64, 0]]
    assert found.content["num_speculative_tokens"] == 4
    read = {batch: k for first, last, k in ranges for batch in range(first, last + 1)}
    assert read == lookup(MADE)
    assert "--speculative-config.num_speculative_tokens_per_batch_size '[[1, 6, 4], " in found.use


def older(by_batch: dict[int, int], batch: int) -> int:
    keys = sorted(by_batch)
    return by_batch[keys[bisect_right(keys, batch) - 1]]


def newer(by_batch: dict[int, int], batch: int) -> int:
    keys = sorted(by_batch)
    place = bisect_left(keys, batch)
    return by_batch[keys[place]] if place < len(keys) else 0


@pytest.mark.parametrize("read", [older, newer])
def test_tensorrt_llm_reads_the_same_by_lower_and_by_upper_ends(read: Callable[[dict[int, int], int], int]) -> None:
    found = tensorrt_llm_schedule(MADE)
    assert isinstance(found, Configuration)
    by_batch = found.content["draft_len_schedule"]
    assert {batch: read(by_batch, batch) for batch in range(1, 65)} == lookup(MADE)
    assert by_batch[1] == by_batch[min(by_batch)] == found.content["max_draft_len"] == max(by_batch.values())
    assert any("16888" in limit for limit in found.limits)


def refused_by_tensorrt_llm(fields: Mapping[str, Any]) -> str | None:
    """Return what `DecodingBaseConfig` finds wrong with a schedule, after its validators of both versions."""
    by_batch, longest = fields["draft_len_schedule"], fields["max_draft_len"]
    if any(batch < 1 for batch in by_batch) or any(k < 0 for k in by_batch.values()):
        return "batch sizes are 1 or more, draft lengths 0 or more"
    if 1 not in by_batch:
        return "the older version wants batch size 1"
    if by_batch[min(by_batch)] != longest or max(by_batch.values()) > longest:
        return "the smallest batch has max_draft_len, and none has more"
    return "max_concurrency excludes a schedule" if "max_concurrency" in fields else None


def test_whatever_is_made_for_tensorrt_llm_passes_its_validators() -> None:
    draw, made = Random(1), 0
    for _ in range(200):
        ends = sorted(draw.sample(range(1, 65), draw.randint(1, 5)))
        lengths = [draw.choice((0, 1, 2, 4, 6)) for _ in ends]
        if any(one == other for one, other in pairwise(lengths)):
            continue
        firsts = [1, *(end + 1 for end in ends)]
        ranges = tuple(BatchRange(*each) for each in zip(firsts, ends, lengths, strict=False))
        found = tensorrt_llm_schedule(Schedule(ranges=ranges))
        if isinstance(found, Configuration):
            made += 1
            assert refused_by_tensorrt_llm(yaml.safe_load(found.text)) is None
            for read in (older, newer):
                by_batch = found.content["draft_len_schedule"]
                assert {b: read(by_batch, b) for b in range(1, ends[-1] + 1)} == lookup(Schedule(ranges=ranges))
        else:
            assert lengths[0] < max(lengths) or not any(lengths)
    assert made > 20


def test_tensorrt_llm_takes_no_draft_that_grows_with_the_batch() -> None:
    found = tensorrt_llm_schedule(Schedule(ranges=(BatchRange(1, 4, 2), BatchRange(5, 64, 4))))
    assert isinstance(found, NoConfiguration)
    assert "no draft length above that of the smallest batch" in found.reason


def test_sglangs_slots_have_one_candidate_each() -> None:
    found = sglang_schedule(replace(MADE, method="EAGLE3", branches=1))
    assert isinstance(found, Configuration)
    slots = {int(key): slot["candidate_steps"] for key, slot in found.content.items()}
    assert all(key.isdigit() for key in found.content)
    assert all(isinstance(steps, list) and len(steps) == 1 and steps[0] >= 0 for steps in slots.values())
    assert {batch: older({key: steps[0] for key, steps in slots.items()}, batch) for batch in range(1, 65)} == lookup(
        MADE
    )
    # SGLang refuses a number of steps that is no candidate.
    assert "--speculative-num-steps 4" in found.use
    assert [4] in slots.values()


@pytest.mark.parametrize(
    ("make", "changed", "reason"),
    [
        (vllm_schedule, {"engines": 2}, "data parallelism"),
        (sglang_schedule, {"engines": 2}, "data parallelism"),
        (sglang_schedule, {"method": "NGRAM"}, "runs NGRAM"),
        (sglang_schedule, {"method": "EAGLE", "branches": 4}, "--speculative-eagle-topk 4"),
        *(
            (make, {"ranges": (BatchRange(1, 8, 0),)}, "without speculation")
            for make in (vllm_schedule, sglang_schedule)
        ),
        (tensorrt_llm_schedule, {"ranges": (BatchRange(1, 8, 0),)}, "without speculation"),
    ],
)
def test_what_an_engine_cannot_take_is_said(
    make: Callable[[Schedule], Configuration | NoConfiguration], changed: dict[str, object], reason: str
) -> None:
    found = make(replace(MADE, **changed))  # type: ignore[arg-type]
    assert isinstance(found, NoConfiguration)
    assert reason in found.reason


def test_the_engines_of_a_sweep_have_their_configurations() -> None:
    cells = timed_sweep(1, latency_ms, (0, 2), (1, 64), of_both=0.01)
    (found,) = configurations(analyse_sweep(with_batches(cells))).items()
    assert found[0] == "vLLM"
    assert isinstance(found[1], Configuration)
    (parallel,) = configurations(analyse_sweep(with_batches(cells, engines=2))).values()
    assert isinstance(parallel, NoConfiguration)
    tree = ServerDrafter(engine="sglang", method="EAGLE", branches=4)
    of_sglang = [replace(cell, engine="sglang") for cell in with_batches(cells, drafter=tree)]
    (refused,) = configurations(analyse_sweep(of_sglang)).values()
    assert isinstance(refused, NoConfiguration)
    assert "topk 4" in refused.reason


def test_a_configuration_is_printed_with_its_use_and_its_limits() -> None:
    found = vllm_schedule(MADE)
    text = shown(configuration_text("vLLM", found), 400)
    assert 'speculative_config.json: {"num_speculative_tokens": 4, ' in text
    assert "To use it, add these fields to --speculative-config" in text
    assert "batches of more than 64 requests were not measured" in text
    assert "None: it is not known how many requests ran" in shown(configuration_text("vLLM", Missing.NO_COUNTERS), 400)
    yaml_text = shown(configuration_text("TensorRT-LLM", tensorrt_llm_schedule(MADE)), 400)
    assert "draft_len_schedule:\n  1: 4\n  6: 4\n  7: 2\n" in yaml_text


def test_texts_of_files_say_what_their_contents_do() -> None:
    for make, read in (
        (vllm_schedule, json.loads),
        (sglang_schedule, json.loads),
        (tensorrt_llm_schedule, yaml.safe_load),
    ):
        found = make(MADE)
        assert isinstance(found, Configuration)
        assert read(found.text) == found.content
