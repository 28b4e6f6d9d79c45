"""Scraping during a run: the simulator's counters; servers that are slow, broken, several, or without metrics."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from aiperf_spec.cli.app import app
from aiperf_spec.server_metrics import scraper
from aiperf_spec.server_metrics.text import parse
from tests.answering import Answer, answering, in_a_thread
from tests.support import Simulate
from tests.test_server_metrics import counters
from tests.waiting import PATIENCE_SECONDS

# As it is shipped: in tests the run waits longer, for a busy machine.
STATED_SECONDS = scraper.PATIENCE_SECONDS


def run(*arguments: object, out: Path) -> Result:
    options = ("--temperature", "0", "--use-server-token-count", "--rows", "0", "--full", "--artifact-dir", out)
    return CliRunner().invoke(app, [*map(str, arguments), *map(str, options)])


def exported(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "server_metrics_export.json").read_text()))


def reconciliation(out: Path) -> dict[str, Any]:
    return dict(exported(out)["spec_profile"]["reconciliation"])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("engines", [1, 3])
def test_a_run_agrees_with_the_engines_counters_exactly(
    simulate: Simulate, tmp_path: Path, engine: str, engines: int
) -> None:
    simulator = simulate(engine, data_parallel=engines, seed=6)
    extra = ("--extra-inputs", "return_spec_tokens_details:true") if engine == "sglang" else ()
    result = run(
        *("--url", simulator.url, "--request-count", 12, "--warmup-request-count", 5, "--concurrency", 4, *extra),
        out=tmp_path / "run",
    )
    assert result.exit_code == 0, result.output
    assert "They agree exactly, over 12 requests that reported." in result.stdout
    found = reconciliation(tmp_path / "run")
    assert found["agreement"] == "exact"
    steps = json.loads((tmp_path / "run" / "profile_export_aiperf.json").read_text())["total_spec_decode_steps"]["avg"]
    assert found["counts"][0]["server"] == steps
    assert found["server_requests"] == 12
    if engine == "vllm":
        assert len(found["counts"]) == 3 + 5
        assert len(exported(tmp_path / "run")["metrics"]["vllm:spec_decode_num_drafts"]["series"]) == engines


def test_the_simulators_counters_are_its_ledger(simulate: Simulate, tmp_path: Path) -> None:
    simulator = simulate("vllm", data_parallel=2, seed=7, faults=(("reset_mid_event", 0.2),))
    simulator.reset_ledger()
    run("--url", simulator.url, "--request-count", 10, "--no-server-metrics", out=tmp_path / "run")
    import urllib.request

    with urllib.request.urlopen(f"{simulator.url}/metrics") as response:
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        families = parse(response.read().decode())
    ledger = simulator.ledger()
    for name, field in (("drafts", "steps"), ("draft_tokens", "proposed"), ("accepted_tokens", "accepted")):
        total = sum(families[f"vllm:spec_decode_num_{name}"].values.values())
        assert total == sum(entry[field] for entry in ledger)
    assert not (tmp_path / "run" / "server_metrics_export.json").exists()


def test_other_traffic_and_silent_requests_are_named(simulate: Simulate, tmp_path: Path) -> None:
    silent = simulate("vllm", seed=8, faults=(("reset_mid_event", 0.3),))
    result = run("--url", silent.url, "--request-count", 20, "--concurrency", 2, out=tmp_path / "silent")
    found = reconciliation(tmp_path / "silent")
    assert found["agreement"] == "server_more"
    assert found["requests_silent"]["failed"] > 0
    ledger = silent.ledger()
    lost = sum(entry["steps"] for entry in ledger if entry["fault"])
    assert found["counts"][0]["difference"] == lost
    assert f"The server ran {lost} verify steps more" in result.stdout
    several = run(
        "--url", simulate("vllm", seed=9).url, "--request-count", 4, "--extra-inputs", "n:2", out=tmp_path / "n"
    )
    assert "4 requests of ours (4 with several sequences)" in " ".join(several.stdout.split())


def test_tensorrt_llm_is_asked_under_its_other_path(simulate: Simulate, tmp_path: Path) -> None:
    result = run("--url", simulate("tensorrt_llm").url, "--request-count", 3, out=tmp_path / "run")
    assert result.exit_code == 0, result.output
    document = exported(tmp_path / "run")
    (url,) = document["summary"]["endpoint_info"]
    assert url.endswith("/prometheus/metrics")
    assert document["metrics"]["trtllm_request_success"]["series"][0]["stats"]["total"] == 3
    assert document["spec_profile"]["reconciliation"] is None


def test_no_metrics_are_a_notice(tmp_path: Path) -> None:
    with answering(Answer()) as server:
        arguments = ("--url", server.url, "--model", "m", "--no-streaming", "--request-count", 2)
        result = run(*arguments, out=tmp_path / "run")
        assert result.exit_code == 0
        assert "not in Prometheus' format" in " ".join(result.stderr.split())
        asked = [path for method, path, *_ in server.asked if method == "GET"]
        assert asked == ["/v1/models", "/metrics", "/prometheus/metrics"]
        server.asked.clear()
        quiet = run(*arguments, "--no-server-metrics", out=tmp_path / "quiet")
        assert "--no-server-metrics" not in quiet.stderr
        assert [path for method, path, *_ in server.asked if method == "GET"] == ["/v1/models"]


class Metrics:
    """A server of nothing but metrics; `answer` says what it answers to the n-th request, from 0: (status, text)."""

    def __init__(self, answer: Callable[[int], tuple[int, str]]) -> None:
        self.answer = answer
        self.asked: list[dict[str, str]] = []
        self.url = ""


@contextmanager
def metrics(answer: Callable[[int], tuple[int, str]]) -> Iterator[Metrics]:
    state = Metrics(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            number = len(state.asked)
            state.asked.append({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
            status, text = state.answer(number)
            data = text.encode()
            try:
                self.send_response(status)
                if status == 307:
                    self.send_header("location", text)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    with in_a_thread(server):
        yield state


def test_several_endpoints_add_up_and_no_secret_is_written(simulate: Simulate, tmp_path: Path) -> None:
    grown = iter(range(100))

    def answer(_: int) -> tuple[int, str]:
        return 200, counters(3 * min(next(grown), 2), 0, 0)

    key = "sk-very-secret-key"
    with metrics(answer) as one, metrics(answer) as two:
        result = run(
            *("--url", simulate("vllm").url, "--request-count", 2, "--api-key", key, "-H", "x-api-key: hush-hush"),
            *("--server-metrics-url", one.url.replace("//", "//user:hush-hush@") + "/metrics?token=hush-too"),
            *("--server-metrics-url", f"{two.url}/other", "--export-level", "raw"),
            out=tmp_path / "run",
        )
        assert result.exit_code == 0, result.output
        assert {request["path"] for request in one.asked} == {"/metrics?token=hush-too"}
        assert {request["path"] for request in two.asked} == {"/other"}
        # The run's own key was given for another origin.
        assert {request["authorization"] for request in one.asked} == {"Basic dXNlcjpodXNoLWh1c2g="}
        assert [request for request in two.asked if {"authorization", "x-api-key"} & request.keys()] == []
    document = exported(tmp_path / "run")
    assert len(document["summary"]["endpoint_info"]) == 2
    assert len(document["metrics"]["vllm:spec_decode_num_drafts"]["series"]) == 2
    everything = result.output + "".join(path.read_text() for path in (tmp_path / "run").iterdir())
    for secret in (key, "hush-hush", "hush-too"):
        assert secret not in everything


@pytest.mark.parametrize("answered", [0, 1])
def test_metrics_that_do_not_answer_delay_nothing_but_the_stated_two_seconds(
    simulate: Simulate, tmp_path: Path, answered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert STATED_SECONDS == 2
    over = threading.Event()

    def answer(number: int) -> tuple[int, str]:
        if number >= answered:
            over.wait(PATIENCE_SECONDS)
        else:
            monkeypatch.setattr(scraper, "PATIENCE_SECONDS", STATED_SECONDS)
        return 200, counters(number, 0, 0)

    if not answered:
        monkeypatch.setattr(scraper, "PATIENCE_SECONDS", STATED_SECONDS)
    with metrics(answer) as server:
        options = ("--request-count", 6, "--server-metrics-url", server.url)
        result = run("--url", simulate("vllm").url, *options, out=tmp_path / "run")
        # The run is over, and they have not answered yet.
        over.set()
    assert result.exit_code == 0
    assert "server" in result.stderr
    assert not (tmp_path / "run" / "server_metrics_export.json").exists()
    assert "6 of 6 succeeded" in result.stdout


def test_failures_in_between_are_tolerated_and_said(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Often enough that the second reading falls into a request of two seconds on any machine.
    monkeypatch.setattr(scraper, "INTERVAL_SECONDS", 0.05)

    def answer(number: int) -> tuple[int, str]:
        return (500, "no") if number == 1 else (200, counters(number, 0, 0) if number < 3 else counters(9, 0, 0))

    slow = simulate("vllm", step_time_ms=60.0)
    with metrics(answer) as server:
        result = run(
            *("--url", slow.url, "--request-count", 1, "--max-tokens", 64, "--extra-inputs", "ignore_eos:true"),
            *("--server-metrics-url", server.url),
            out=tmp_path / "run",
        )
    assert result.exit_code == 0
    assert "1 of" in result.stderr
    document = exported(tmp_path / "run")
    assert document["metrics"]["vllm:spec_decode_num_drafts"]["series"][0]["stats"]["total"] == 9
    (info,) = document["summary"]["endpoint_info"].values()
    assert info["failed_fetches"] == 1


def test_counters_of_other_names_are_said_to_be_missing(simulate: Simulate, tmp_path: Path) -> None:
    def answer(number: int) -> tuple[int, str]:
        return 200, "# TYPE other_total counter\nother_total 1\n"

    with metrics(answer) as server:
        options = ("--request-count", 2, "--server-metrics-url", server.url)
        result = run("--url", simulate("vllm").url, *options, out=tmp_path / "run")
    said = " ".join(result.stderr.split())
    assert "no counter of verify steps" in said
    assert "Looked for vllm:spec_decode_num_drafts" in said


@pytest.mark.parametrize("growing", [0, 1])
def test_replicas_that_answer_in_turn_are_not_other_traffic(
    simulate: Simulate, tmp_path: Path, growing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(number: int) -> tuple[int, str]:
        # Counters like these never stand still: the run waits as long as it says.
        monkeypatch.setattr(scraper, "PATIENCE_SECONDS", STATED_SECONDS)
        return 200, counters(100_000 if number % 2 == growing else 7, 0, 0)

    with metrics(answer) as server:
        options = ("--request-count", 2, "--server-metrics-url", server.url)
        result = run("--url", simulate("vllm").url, *options, out=tmp_path / "run")
    said = " ".join(result.stdout.split())
    assert "several replicas answer here in turn" in said
    assert "other traffic" not in said
    assert reconciliation(tmp_path / "run")["agreement"] == "reset"


def test_a_redirect_is_followed_on_the_same_origin_alone(simulate: Simulate, tmp_path: Path) -> None:
    with metrics(lambda number: (200, counters(3, 0, 0))) as elsewhere:
        with metrics(lambda number: (307, "/metrics/") if number % 2 == 0 else (200, counters(3, 0, 0))) as server:
            options = ("--request-count", 2, "--server-metrics-url", server.url)
            followed = run("--url", simulate("vllm").url, *options, out=tmp_path / "followed")
            assert {request["path"] for request in server.asked} == {"/metrics", "/metrics/"}
        with metrics(lambda number: (307, f"{elsewhere.url}/metrics")) as server:
            options = ("--request-count", 2, "--server-metrics-url", server.url)
            refused = run("--url", simulate("vllm").url, *options, out=tmp_path / "refused")
        assert elsewhere.asked == []
    assert "What the server counted" in followed.stdout
    assert "failed" not in followed.stderr
    assert f"HTTP 307 to {elsewhere.url}/metrics" in "".join(refused.stderr.split()).replace(
        "HTTP307to", "HTTP 307 to "
    )


def test_counters_that_never_stand_still_are_said_to(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(number: int) -> tuple[int, str]:
        # From the first answer on the run waits as long as it says: counters like these never stand still.
        monkeypatch.setattr(scraper, "PATIENCE_SECONDS", STATED_SECONDS)
        return 200, counters(number * 100, 0, 0)

    with metrics(answer) as server:
        result = run(
            *("--url", simulate("vllm").url, "--request-count", 2, "--server-metrics-url", server.url),
            out=tmp_path / "run",
        )
    assert "were still changing when they were read" in " ".join(result.stdout.split())
    assert reconciliation(tmp_path / "run")["settled"] is False
