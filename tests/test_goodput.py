"""Goodput: its grammar, the requests that count, and where it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.analysis.gates import evaluate
from aiperf_spec.artifacts.read.summary_file import SummaryFile, summary_of
from aiperf_spec.artifacts.write.config_yaml import config_yaml
from aiperf_spec.artifacts.write.summary_files import summary_csv, summary_json
from aiperf_spec.config.goodput import parse_goodput
from aiperf_spec.config.settings import ReportSettings
from aiperf_spec.config.yaml_file import parse_config
from aiperf_spec.errors import ConfigError
from aiperf_spec.metrics.goodput import good_requests, objectives
from aiperf_spec.metrics.summary import summarise
from aiperf_spec.models.run import ErrorKind
from aiperf_spec.render.run_header import goodput_text
from tests.records import failed, record
from tests.test_export import run_of

# Time to first token 100 ms each; inter-token latency 10, 20 and none; latency 200, 300 and 100 ms.
RECORDS = [
    record(0, start=0, contents=(100, 200), tokens=11, category="a"),
    record(1, start=0, contents=(100, 300), tokens=11, category="b"),
    record(2, start=0, contents=(100,), tokens=1, category="b"),
]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("request_latency:250", 2),
        ("request_latency:200", 2),
        ("request_latency:199", 1),
        ("inter_token_latency:10", 1),
        ("itl:20 ttft:100", 2),
        ("itl:20 ttft:99.9", 0),
        ("output_sequence_length:11", 2),
        ("output_token_throughput_per_user:60", 1),
        ("spec_decode_acceptance_length:1", 0),
    ],
)
def test_a_request_is_good_that_met_every_limit_and_has_every_metric(text: str, good: int) -> None:
    assert good_requests(RECORDS, objectives(parse_goodput([text]))) == good


def test_goodput_is_good_requests_by_the_duration_and_the_share_counts_failures() -> None:
    goals = objectives({"request_latency": 250})
    summary = summarise([*RECORDS, failed(3, ErrorKind.READ_ERROR)], goals=goals)
    assert summary.run_values["good_request_count"] == 2
    assert summary.run_values["goodput"] == pytest.approx(2 / 0.3)
    assert summary.run_values["good_request_fraction"] == 0.5
    assert goodput_text(summary) == "6.67 requests/s: 2 of 4 requests met request_latency <= 250 ms"
    assert "goodput" not in summarise(RECORDS).run_values


def test_files_hold_it_by_aiperfs_tags_and_give_it_back() -> None:
    summary = summarise(RECORDS, goals=objectives({"ttft": 100, "output_sequence_length": 11}))
    written = SummaryFile.model_validate_json(summary_json(run_of(RECORDS), summary))
    assert written.metric("goodput") == pytest.approx(2 / 0.3)
    assert written.metric("good_request_count") == 2
    again = summary_of(written)
    assert again.objectives == {"time_to_first_token": 100, "output_sequence_length": 11}
    assert goodput_text(again) == goodput_text(summary)
    assert b"Goodput (requests/sec),6.67" in summary_csv(summary)


def test_gates_take_it_of_the_run_and_of_a_category() -> None:
    figures = Figures(RECORDS, goals=objectives({"request_latency": 250}))
    results = evaluate(["goodput >= 6", "goodput[a] >= 5.1", "good_request_fraction >= 0.7"], figures)
    assert [result.passed for result in results] == [True, False, False]
    assert [result.figure.value for result in results] == pytest.approx([2 / 0.3, 1 / 0.2, 2 / 3])
    (without,) = evaluate(["goodput >= 0"], Figures(RECORDS))
    assert not without.passed


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([""], "got nothing"),
        (["ttft"], "'ttft' is not KEY:VALUE"),
        (["ttft:fast"], "'ttft:fast' is not KEY:VALUE"),
        (["ttft:nan"], "is not KEY:VALUE"),
        (["ttft:1 itl:2", "ttft:3"], "'ttft' is given twice"),
        (["ttft:1 time_to_first_token:3"], "time_to_first_token has two limits"),
        (["inter_chunk_latency:3"], "no metric of single requests is named 'inter_chunk_latency'"),
    ],
)
def test_a_wrong_limit_is_an_error_that_names_it(texts: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        objectives(parse_goodput(texts))


def test_a_configuration_file_holds_it_where_aiperf_does() -> None:
    text = "benchmark:\n  slos: {request_latency: 250, inter_token_latency: 10.5}\n"
    found = parse_config(text, "run.yaml", lambda _: None, Path())
    assert found == {"goodput": {"request_latency": 250, "inter_token_latency": 10.5}}


def test_config_yaml_names_the_limits_by_their_tags() -> None:
    text = config_yaml(run_of(RECORDS), ReportSettings(goodput={"ttft": 40})).decode()
    assert "slos:\n    time_to_first_token: 40.0" in text
