"""Scrapes read, added up and held against the requests, without a server."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.adapters.registry import load_registry
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import evaluate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.artifacts.read.server_metrics_file import ServerMetricsFile
from aiperf_spec.artifacts.write.server_metrics_files import (
    server_acceptance_json,
    server_metrics_csv,
    server_metrics_json,
)
from aiperf_spec.config.server_url import split_endpoint
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.pooled import pool
from aiperf_spec.models.acceptance import DropReason, SpecDecodeAcceptanceRecord
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import ErrorKind, Phase, RequestRecord
from aiperf_spec.models.server_metrics import Agreement, EndpointScrapes, ServerMetrics
from aiperf_spec.render.server_side import verdict
from aiperf_spec.server_metrics.deltas import metric_deltas, unit_of
from aiperf_spec.server_metrics.endpoints import metrics_endpoints
from aiperf_spec.server_metrics.reconciliation import reconcile
from aiperf_spec.server_metrics.snapshots import Snapshots
from aiperf_spec.server_metrics.text import NotPrometheusError, parse
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.sse import SSEEvent
from tests.records import failed, record

HERE = Path(__file__).parent
S = 1_000_000_000


def counters(steps: float, proposed: float, accepted: float, positions: tuple[float, ...] = (), engine: int = 0) -> str:
    names = {
        "vllm:spec_decode_num_drafts": steps,
        "vllm:spec_decode_num_draft_tokens": proposed,
        "vllm:spec_decode_num_accepted_tokens": accepted,
    }
    lines = []
    for name, value in names.items():
        lines += [f"# HELP {name}_total h", f"# TYPE {name}_total counter"]
        lines.append(f'{name}_total{{engine="{engine}"}} {value}')
    lines.append("# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter")
    for i, value in enumerate(positions):
        lines.append(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="{engine}",position="{i}"}} {value}')
    return "\n".join(lines) + "\n"


def recorded(*texts: str) -> Snapshots:
    snapshots = Snapshots()
    snapshots.begin(0, texts[0])
    for at, text in enumerate(texts[1:], start=1):
        snapshots.add(at * S, text)
    snapshots.finish()
    return snapshots


def measured(*snapshots_by_url: Snapshots, seconds: int = 2) -> ServerMetrics:
    by_url = {f"http://s{i}/metrics": snapshots for i, snapshots in enumerate(snapshots_by_url)}
    endpoints = [EndpointScrapes(url, 3, 0, 0, 2 * S, 1.0, True) for url in by_url]
    return ServerMetrics(endpoints, 0, seconds * S, metric_deltas(by_url, 0, seconds * S))


@pytest.mark.parametrize("suffix", ["", "_total"])
def test_a_counter_is_found_with_its_suffix_and_without(suffix: str) -> None:
    families = parse(f'# TYPE a:b{suffix} counter\na:b{suffix}{{x="1"}} 3\na:b{suffix}{{x="2"}} 4.5\n')
    assert families["a:b"].type == "counter"
    assert families["a:b"].values == {(("x", "1"),): 3.0, (("x", "2"),): 4.5}


OPEN = """# TYPE a counter
# UNIT a tokens
# HELP a Text.
a_total{x="1 # {y} 2"} 3 # {trace_id="}"} 1.0 1700000000.5
a_created{x="1 # {y} 2"} 1700000000.5
# TYPE h histogram
h_bucket{le="1.0"} 2 # {trace_id="a b"} 0.5
h_bucket{le="+Inf"} 4 1700000000.123
h_count 4
h_sum 2.5
# TYPE d.g gauge
d.g 7 1700000000.123
# TYPE i info
i_info{version="1"} 1
# EOF
"""


def test_openmetrics_is_read() -> None:
    families = parse(OPEN)
    assert families.keys() == {"a", "h", "d_g"}
    assert families["a"].values == {(("x", "1 # {y} 2"),): 3.0}
    assert families["a"].description == "Text."
    assert families["h"].histograms[()].bounds == {"1.0": 2.0, "+Inf": 4.0}
    assert families["d_g"].values == {(): 7.0}


def test_openmetrics_over_a_run() -> None:
    later = OPEN.replace("} 3 #", "} 5 #").replace("d.g 7", "d.g 9").replace("0.123", "9.123")
    found = measured(recorded(OPEN, later)).metrics
    assert found["a"].total() == 2
    assert found["d_g"].series[0].stats["avg"] == 9


@pytest.mark.parametrize("begun", ["a_created", "process_start_time_seconds"])
def test_another_process_that_answers_in_between_is_a_reset(begun: str) -> None:
    def page(steps: int, at: float) -> str:
        return counters(steps, 0, 0) + f"# TYPE {begun} gauge\n{begun} {at}\n"

    # Whose counters stand higher at each read: nothing fell.
    one = measured(recorded(page(10, 1e9), page(20, 2e9), page(30, 1e9)))
    assert one.metrics["vllm:spec_decode_num_drafts"].total() is None
    same = measured(recorded(page(10, 1e9), page(20, 1e9), page(30, 1e9)))
    assert same.metrics["vllm:spec_decode_num_drafts"].total() == 20


@pytest.mark.parametrize("prefix", ["ray_vllm_", "vllm_", "llamacpp:", "ray_vllm:", "vllm."])
def test_counters_under_another_prefix_are_compared(prefix: str) -> None:
    pages = [counters(s, 5 * s, s, (s, 0)).replace("vllm:", prefix) for s in (0, 8)]
    found = reconcile(OURS, measured(recorded(*pages)))
    assert found is not None
    assert [count.server for count in found.counts[:3]] == [8, 40, 8]
    assert len(found.counts) > 3
    assert found.engine == ("llama_cpp" if prefix == "llamacpp:" else "vllm")


def test_two_prefixes_are_no_prefix() -> None:
    pages = [counters(s, 5 * s, s).replace("vllm:", "a_") + counters(s, s, s).replace("vllm:", "b_") for s in (0, 8)]
    assert reconcile(OURS, measured(recorded(*pages))) is None


@pytest.mark.parametrize("text", ["", "<html>no</html>", "{}", "[]\n", "# only a comment\n", 'a{b="c} 1'])
def test_what_is_no_exposition_is_refused(text: str) -> None:
    with pytest.raises(NotPrometheusError):
        parse(text)
    with pytest.raises(NotPrometheusError):
        Snapshots().begin(0, text)


def test_real_captures_are_read() -> None:
    vllm = parse((HERE / "wire" / "vllm" / "metrics.prom.txt").read_text())
    sglang = parse((HERE / "wire" / "sglang" / "metrics.prom.txt").read_text())
    assert list(vllm["vllm:spec_decode_num_drafts"].values.values()) == [626.0]
    assert list(sglang["sglang:spec_verify_calls"].values.values()) == [1895.0]
    assert list(sglang["sglang:spec_accept_length"].values.values()) == [2.1]
    assert vllm["vllm:time_to_first_token_seconds"].histograms


def test_counters_grow_over_all_series_and_endpoints() -> None:
    first = counters(10, 50, 5) + counters(100, 500, 50, engine=1)
    last = counters(17, 85, 9) + counters(101, 505, 51, engine=1)
    found = measured(recorded(first, last), recorded(counters(0, 0, 0), counters(2, 10, 3))).metrics
    drafts = found["vllm:spec_decode_num_drafts"]
    assert [series.stats["total"] for series in drafts.series] == [7, 1, 2]
    assert drafts.total() == 10
    assert drafts.series[0].stats["rate"] == 3.5


def test_a_series_that_comes_up_counts_from_zero_and_one_that_goes_is_a_reset() -> None:
    both = counters(10, 50, 5) + counters(4, 20, 2, engine=1)
    assert measured(recorded(counters(10, 50, 5), both)).metrics["vllm:spec_decode_num_drafts"].total() == 4
    assert measured(recorded(both, counters(11, 55, 5))).metrics["vllm:spec_decode_num_drafts"].total() is None


def test_a_reset_is_seen_even_where_the_counter_has_caught_up() -> None:
    texts = [counters(10, 50, 5), counters(1, 5, 0), counters(30, 150, 9)]
    found = measured(recorded(*texts)).metrics["vllm:spec_decode_num_drafts"]
    assert found.total() is None
    assert found.series[0].reset
    started = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds "
    restarted = measured(recorded(texts[0] + started + "5.5\n", texts[2] + started + "9.5\n"))
    assert restarted.metrics["vllm:spec_decode_num_drafts"].total() is None


def gauge(value: float) -> str:
    return f'# TYPE sglang:spec_accept_length gauge\nsglang:spec_accept_length{{tp_rank="0"}} {value}\n'


def test_gauges_are_averaged_over_time_within_the_interval_alone() -> None:
    # 9 stood before the run, 2 for one second, 4 for two; 7 was read after it had ended.
    snapshots = recorded(gauge(9), gauge(2), gauge(4), gauge(4), gauge(7))
    stats = metric_deltas({"u": snapshots}, 0, 3 * S)["sglang:spec_accept_length"].series[0].stats
    assert stats["avg"] == pytest.approx((2 + 4 + 4) / 3)
    assert (stats["min"], stats["max"], stats["p50"], stats["p25"]) == (2, 4, 4, 2)
    # A run that ended within the second after its start: what was read then is all that is known.
    assert metric_deltas({"u": snapshots}, 0, S // 2)["sglang:spec_accept_length"].series[0].stats["avg"] == 2


def test_histograms_grow_and_estimate_percentiles() -> None:
    def histogram(low: int, high: int) -> str:
        return (
            "# TYPE h_seconds histogram\n"
            f'h_seconds_bucket{{le="1.0"}} {low}\nh_seconds_bucket{{le="2.0"}} {high}\n'
            f'h_seconds_bucket{{le="+Inf"}} {high}\nh_seconds_count {high}\nh_seconds_sum {high}\n'
        )

    series = measured(recorded(histogram(1, 2), histogram(6, 12))).metrics["h_seconds"].series[0]
    assert series.buckets == {"1.0": 5, "2.0": 10, "+Inf": 10}
    assert series.stats["count"] == 10
    assert series.stats["p50_estimate"] == 1.0
    assert series.stats["p75_estimate"] == 1.5


ODD = [math.nan, math.inf, -math.inf, 1e200]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_counter_that_is_no_number_costs_itself_alone(odd: float, place: int) -> None:
    steps: list[float] = [10, 12, 17]
    steps[place] = odd
    texts = [counters(each, 50 + i, 5 + i) for i, each in enumerate(steps)]
    found = measured(recorded(*texts))
    drafts = found.metrics["vllm:spec_decode_num_drafts"]
    assert drafts.total() == (7 if place == 1 else None)
    assert drafts.series[0].reset is False
    assert found.metrics["vllm:spec_decode_num_draft_tokens"].total() == 2
    reconciliation = reconcile(OURS, found)
    assert reconciliation is not None
    if place != 1:
        assert reconciliation.agreement is Agreement.NO_NUMBER
        assert "no number" in verdict(reconciliation)
    assert json.loads(server_metrics_json(found, "id", reconciliation))
    assert server_metrics_csv(found, "id")


def test_a_reset_is_seen_past_a_value_that_is_no_number() -> None:
    found = measured(recorded(counters(10, 0, 0), counters(50, 0, 0), counters(math.nan, 0, 0), counters(20, 0, 0)))
    assert found.metrics["vllm:spec_decode_num_drafts"].series[0].reset


@pytest.mark.parametrize("odd", ODD)
def test_a_gauge_is_averaged_without_what_is_no_number(odd: float) -> None:
    snapshots = recorded(gauge(9), gauge(2), gauge(odd), gauge(2), gauge(4))
    stats = metric_deltas({"u": snapshots}, 0, 4 * S)["sglang:spec_accept_length"].series[0].stats
    assert (stats["min"], stats["max"]) == (2, 4)
    assert stats["avg"] == pytest.approx(8 / 3)


@pytest.mark.parametrize("odd", [*map(str, ODD), "", "wide"])
@pytest.mark.parametrize("place", ["le", "bucket", "count", "sum", "started", "position"])
def test_a_histogram_and_labels_that_are_no_numbers_cost_themselves_alone(odd: str, place: str) -> None:
    number = {"": "NaN", "wide": "NaN"}.get(odd, odd)

    def text(n: int) -> str:
        values = {"le": "1.0", "bucket": n, "count": n, "sum": n, "started": "5", "position": "0", place: number}
        values["le"] = odd if place == "le" else "1.0"
        return counters(n, n, n) + (
            f'# TYPE h histogram\nh_bucket{{le="{values["le"]}"}} {values["bucket"]}\nh_bucket{{le="+Inf"}} {n}\n'
            f"h_count {values['count']}\nh_sum {values['sum']}\n"
            f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {values['started']}\n"
            "# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter\n"
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{values["position"]}"}} {n}\n'
        )

    found = measured(recorded(text(2), text(6)))
    assert found.metrics["vllm:spec_decode_num_drafts"].total() == 4
    assert found.metrics["h"].series[0].stats["count"] == (None if place in ("count", "sum") else 4)
    assert server_metrics_json(found, "id", reconcile(OURS, found))
    assert server_metrics_csv(found, "id")


def test_units_are_aiperfs() -> None:
    theirs = json.loads((HERE / "aiperf" / "server_metrics_units.json").read_text())
    assert {name: unit_of(name) for name in theirs} == theirs


def test_values_with_time_stamps_do_no_harm() -> None:
    text = '# TYPE a_total counter\na_total{x="1"} 5 1700000000000\n# TYPE g gauge\ng 1 1700000000000\n'
    later = text.replace("} 5 17", "} 8 17").replace("g 1 ", "g 2 ").replace("000000\n", "000999\n")
    found = measured(recorded(text, later)).metrics
    assert found["a"].total() == 3
    assert found["g"].series[0].stats["avg"] == 2


# Reconciliation: two requests verified 5 steps, 25 proposed, 6 accepted.
OURS = [
    record(0, start=0, contents=(1, 2), tokens=5, histogram={0: 2, 3: 1}),
    record(1, start=0, contents=(1, 2), tokens=5, histogram={1: 1, 2: 1}),
    record(2, start=0, contents=(1, 2), tokens=9, histogram={5: 9}, phase=Phase.WARMUP),
]


def against(steps: int, proposed: int, accepted: int, positions: tuple[int, ...]) -> ServerMetrics:
    return measured(
        recorded(
            counters(100, 100, 100, (50, 50, 50)),
            counters(100 + steps, 100 + proposed, 100 + accepted, tuple(50 + p for p in positions)),
        )
    )


def test_exact_agreement_counts_profiled_requests_alone() -> None:
    found = reconcile(OURS, against(5, 25, 6, (3, 2, 1)))
    assert found is not None
    assert found.agreement is Agreement.EXACT
    assert [count.difference for count in found.counts] == [0] * 6
    assert [count.requests for count in found.counts] == [5, 25, 6, 3, 2, 1]
    assert verdict(found) == "They agree exactly, over 2 requests that reported."


def test_other_traffic_is_named_with_its_steps() -> None:
    found = reconcile(OURS, against(12, 60, 8, (4, 3, 1)))
    assert found is not None
    assert found.agreement is Agreement.SERVER_MORE
    assert found.steps.difference == 7
    assert verdict(found).startswith(
        "The server ran 7 verify steps more than our requests reported: all of ours reported"
    )


def test_requests_of_ours_that_said_nothing_are_counted_by_reason() -> None:
    silent = [
        failed(3, ErrorKind.READ_TIMEOUT),
        failed(4, ErrorKind.CANCELLED),
        record(5, start=0, contents=(1,), tokens=3, reason=DropReason.MULTI_SEQUENCE),
        record(6, start=0, contents=(1,), tokens=1, reason=DropReason.ZERO_STEP),
    ]
    found = reconcile([*OURS, *silent], against(12, 60, 8, (4, 3, 1)))
    assert found is not None
    assert found.requests_reported == 3
    assert found.requests_silent == {"failed": 1, "cancelled": 1, "multi_sequence": 1}
    assert "3 requests of ours (1 failed, 1 cancelled, 1 with several sequences) did not report" in verdict(found)
    exact = reconcile([*OURS, *silent], against(5, 25, 6, (3, 2, 1)))
    assert exact is not None
    assert "cost no verify step" in verdict(exact)


def test_fewer_resets_and_nothing_to_compare_with() -> None:
    fewer = reconcile(OURS, against(4, 20, 6, (3, 2, 1)))
    assert fewer is not None
    assert fewer.agreement is Agreement.SERVER_FEWER
    reset = reconcile(OURS, measured(recorded(counters(10, 50, 5), counters(1, 5, 0))))
    assert reset is not None
    assert reset.agreement is Agreement.RESET
    assert "reset" in verdict(reset)
    assert reconcile(OURS, measured(recorded(gauge(2), gauge(2)))) is None


def test_sglangs_verify_calls_are_steps() -> None:
    def text(calls: int) -> str:
        return f'# TYPE sglang:spec_verify_calls_total counter\nsglang:spec_verify_calls_total{{m="x"}} {calls}\n'

    found = reconcile(OURS, measured(recorded(text(7), text(12))))
    assert found is not None
    assert found.agreement is Agreement.EXACT
    assert [count.name for count in found.counts] == ["verify steps"]


# SGLang counts tokens and not accepted drafts: `counters/sglang` has its pages before and after six responses.
CAPTURED = HERE / "counters" / "sglang"
APART = ServerDrafter(engine="sglang", method="NGRAM", overlaps=False)


def sglang_page(name: str, **changed: float) -> str:
    text = (CAPTURED / f"{name}.prom.txt").read_text()
    for counter, by in changed.items():
        pattern = rf"(sglang:{counter}_total\{{.*\}}) ([\d.]+)$"
        if counter == "realtime_tokens":
            pattern = r'(sglang:realtime_tokens_total\{.*mode="decode".*\}) ([\d.]+)$'
        text, n = re.subn(pattern, lambda m, by=by: f"{m[1]} {float(m[2]) + by}", text, count=1, flags=re.M)  # type: ignore[misc]
        assert n == 1
    return text


def sglang_records() -> list[RequestRecord]:
    registry, records = load_registry(), []
    for index, line in enumerate((CAPTURED / "responses.jsonl").read_text().splitlines()):
        response = parse_event(SSEEvent(line.encode()), 1, registry.payload_paths)
        assert response is not None
        report, _ = registry.read([response], several_sequences=False)
        assert isinstance(report, SpecDecodeAcceptanceRecord)
        found = record(index, start=0, contents=(1, 2), tokens=report.completion_tokens)
        records.append(replace(found, acceptance=report))
    return records


def sglang_metrics(**changed: float) -> ServerMetrics:
    return measured(recorded(sglang_page("before"), sglang_page("after", **changed)))


def test_sglangs_tokens_give_the_accepted_drafts_exactly() -> None:
    records, metrics = sglang_records(), sglang_metrics()
    found = reconcile(records, metrics, APART)
    assert found is not None
    assert found.agreement is Agreement.EXACT
    assert [(count.name, count.requests, count.server) for count in found.counts] == [
        ("verify steps", 218, 218),
        ("accepted drafts", 219, 219),
    ]
    counted = server_acceptance(found)
    assert isinstance(counted, ServerAcceptance)
    assert counted.length == pytest.approx(pool(records).length, rel=1e-9)
    assert (counted.rate, counted.is_exact) == (None, True)
    # The gauge, an average of single moments, says something else.
    assert metrics.metrics["sglang:spec_accept_length"].series[0].stats["avg"] == pytest.approx(2.025)


@pytest.mark.parametrize("drafter", [None, replace(APART, overlaps=True), replace(APART, engine="other")])
def test_where_steps_may_overlap_tokens_give_bounds_and_nothing_to_compare(drafter: ServerDrafter | None) -> None:
    # As its schedule then counts: a step too many for each of the six requests.
    metrics = sglang_metrics(realtime_tokens=9)
    found = reconcile(sglang_records(), metrics, drafter)
    assert found is not None
    assert found.agreement is Agreement.EXACT
    assert [count.name for count in found.counts] == ["verify steps"]
    assert found.accepted_bounds == (435 - 6 - 218, 219 + 9)
    counted = server_acceptance(found)
    assert isinstance(counted, ServerAcceptance)
    assert counted.least_length < 1 + 219 / 218 < counted.length
    assert not counted.is_exact
    told = server_acceptance_json(found)
    assert told is not None
    assert told["acceptance_length"] is told["accepted_draft_tokens"] is None
    assert (told["least_acceptance_length"], told["greatest_acceptance_length"]) == (
        counted.least_length,
        counted.length,
    )
    (gate,) = evaluate(["acceptance_length >= 1"], Figures([], counted=counted))
    assert (gate.passed, gate.reason) == (False, Missing.COUNTERS_BOUND_ONLY)
    twice = counted.with_other(ServerAcceptance(10, None, 5))
    assert (twice.accepted, twice.least, twice.steps) == (233, 216, 228)


def test_a_drafter_whose_steps_give_two_tokens_more_is_counted_so() -> None:
    page = {"speculative_algorithm": "UNO", "disable_overlap_schedule": True}
    uno = known_engines()["sglang"].drafter.read("sglang", page)
    assert uno is not None
    found = reconcile(sglang_records(), sglang_metrics(realtime_tokens=218), uno)
    assert found is not None
    assert found.agreement is Agreement.EXACT
    assert found.accepted_bounds == (219, 219)


def test_a_request_that_was_aborted_leaves_bounds() -> None:
    found = reconcile(sglang_records(), sglang_metrics(num_aborted_requests=1), APART)
    assert found is not None
    assert found.accepted_bounds == (211, 219)


@pytest.mark.parametrize(("other", "same"), [(0.0, True), (5.0, False)])
def test_ranks_that_count_the_same_tokens_are_one(other: float, same: bool) -> None:
    def page(name: str, **changed: float) -> str:
        (line,) = re.findall(r'^.*realtime_tokens_total\{.*mode="decode".*$', sglang_page(name, **changed), re.M)
        copy = line.replace('tp_rank="0"', 'tp_rank="1"')
        after = "# HELP sglang:prompt_tokens_total"
        return sglang_page(name).replace(after, f"{copy}\n{after}")

    metrics = measured(recorded(page("before"), page("after", realtime_tokens=other)))
    found = reconcile(sglang_records(), metrics, APART)
    assert found is not None
    assert found.accepted_bounds == ((219, 219) if same else None)
    assert server_acceptance(found) == (ServerAcceptance(218, None, 219) if same else Missing.DRAFTS_NOT_COUNTED)


@pytest.mark.parametrize(("engine", "finished"), [("vllm", 6), ("sglang", 8)])
def test_each_answer_of_several_is_a_request_of_ours(engine: str, finished: int) -> None:
    several = record(0, start=0, contents=(1,), tokens=3, reason=DropReason.MULTI_SEQUENCE)
    ours = [replace(several, prompts=2, samples=3)]

    def page(steps: int, requests: int) -> str:
        names = {"vllm": ("spec_decode_num_drafts", "request_success"), "sglang": ("spec_verify_calls", "num_requests")}
        values = zip(names[engine], (steps, requests), strict=True)
        return "".join(f"# TYPE {engine}:{n}_total counter\n{engine}:{n}_total {value}\n" for n, value in values)

    alone = reconcile(ours, measured(recorded(page(5, 10), page(25, 10 + finished))))
    assert alone is not None
    assert (alone.requests_ours, alone.others) == (finished, 0)
    assert "not ours" not in verdict(alone)
    searched = [replace(several, output_tokens=48, silencing_fields=("use_beam_search",))]
    tokens = reconcile(searched, measured(recorded(page(5, 10), page(5, 58))))
    assert tokens is not None
    assert tokens.others == (0 if engine == "vllm" else 47)
    beside = reconcile(ours, measured(recorded(page(5, 10), page(25, 12 + finished))))
    assert beside is not None
    assert "at least 2 requests were not ours" in verdict(beside)


# Where to ask.


def where(**values: object) -> list[tuple[str, ...]]:
    config = ProfileConfig.create(url="http://h:8000/v1", **values)
    return [target.urls for target in metrics_endpoints(config, split_endpoint(config.url))]


def test_metrics_are_beside_the_api_or_where_the_user_says() -> None:
    assert where() == [("http://h:8000/metrics", "http://h:8000/prometheus/metrics")]
    named = ("http://a:1/metrics", "b:2", "https://c/prom?x=1", "b:2")
    assert where(server_metrics_url=named) == [
        ("http://a:1/metrics",),
        ("http://b:2/metrics",),
        ("https://c/prom?x=1",),
    ]


def test_credentials_and_queries_are_not_shown() -> None:
    config = ProfileConfig.create(url="h", server_metrics_url=("http://user:hush-hush@a:1/metrics?key=secret",))
    (target,) = metrics_endpoints(config, split_endpoint("h"))
    assert target.server.credentials == ("user", "hush-hush")
    assert target.shown == "http://a:1/metrics"
    assert "hush" not in repr(config) + str(target.urls)


def test_contradictions_and_bad_urls_are_named() -> None:
    with pytest.raises(ConfigError, match="--no-server-metrics"):
        ProfileConfig.create(url="h", server_metrics=False, server_metrics_url=("a",))
    with pytest.raises(ConfigError, match=r"--server-metrics-url: .*ftp"):
        ProfileConfig.create(url="h", server_metrics_url=("ftp://u:hush@a",))


# Files.


def test_exports_have_aiperfs_shape() -> None:
    metrics = against(5, 25, 6, (3, 2, 1))
    found = reconcile(OURS, metrics)
    document = json.loads(server_metrics_json(metrics, "abc", found))
    assert document["metrics"]["vllm:spec_decode_num_drafts"] == {
        "type": "counter",
        "description": "h",
        "series": [
            {"endpoint_url": "http://s0/metrics", "labels": {"engine": "0"}, "stats": {"total": 5, "rate": 2.5}}
        ],
    }
    assert document["spec_profile"]["reconciliation"]["agreement"] == "exact"
    lines = server_metrics_csv(metrics, "abc").decode().splitlines()
    assert lines[6].startswith("Endpoint,Type,Metric,Unit,total,rate,")
    assert lines[7].startswith("s0,counter,vllm:spec_decode_num_accepted_tokens,tokens,6.0000,3.0000,")


def test_acceptance_from_an_export() -> None:
    document = ServerMetricsFile.model_validate_json(server_metrics_json(against(5, 25, 6, (3, 2, 1)), "abc", None))
    counts = document.counted_acceptance()
    assert counts is not None
    assert counts == ServerAcceptance(steps=5, proposed=25, accepted=6)
    assert counts.length == 2.2
    assert document.length_gauge() is None
    idle = {"metrics": {"sglang:spec_accept_length": {"series": [{"stats": {"avg": 0.0}}]}}}
    assert ServerMetricsFile.model_validate(idle).length_gauge() is None
    unknown = {
        "metrics": {"acme_Spec_mean_accept_length": {"series": [{"stats": {"avg": 2.0}}, {"stats": {"avg": 4.0}}]}}
    }
    assert ServerMetricsFile.model_validate(unknown).length_gauge() == 3.0
    rate = {"metrics": {"sglang:spec_accept_rate": {"series": [{"stats": {"avg": 0.25}}]}}}
    assert ServerMetricsFile.model_validate(rate).rate_gauge() == 25.0
    # SGLang's tokens are no proof where nothing says whether its steps overlap: an AIPerf file does not.
    told = server_metrics_json(sglang_metrics(), "abc", None)
    assert ServerMetricsFile.model_validate_json(told).counted_acceptance() == ServerAcceptance(
        218, None, 219, least=211
    )
    shapes: list[dict[str, Any]] = [{}, {"metrics": []}, {"metrics": {"vllm:spec_decode_num_drafts": 5}}]
    for hostile in shapes:
        assert ServerMetricsFile.model_validate(hostile).counted_acceptance() is None
        assert ServerMetricsFile.model_validate(hostile).rate_gauge() is None
