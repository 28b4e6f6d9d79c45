"""Several clients of one run: who sends what, and when they start."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.config.several_clients import Share, start_time, start_time_ns
from aiperf_spec.errors import ConfigError, SpecProfileError
from aiperf_spec.load.plan import PlannedRequest, own_requests_of
from aiperf_spec.load.requester import Sink
from aiperf_spec.load.scheduler import PhaseRunner
from aiperf_spec.load.start import check_start, wait_for_start
from aiperf_spec.load.stop import Stop
from aiperf_spec.models.run import Phase, RunResult
from aiperf_spec.profiling import first_request, profile
from aiperf_spec.workload.dataset import open_workload
from tests.support import Simulate

START = 1_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected I/N"),
        ("1", "expected I/N"),
        ("-1/3", "expected I/N"),
        ("a/3", "expected I/N"),
        ("٣/٤", "expected I/N"),
        ("0/0", "there may be 1 to 10,000 clients, got 0"),
        ("0/10001", "got 10,001"),
        ("3/3", "clients count from 0: 0/3 to 2/3, got '3/3'"),
        ("1/1", "clients count from 0: 0/1, got"),
    ],
)
def test_a_share_that_is_none(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"--share: .*{said}"):
        ProfileConfig.create(url="h", share=text)


def test_a_share_takes_its_own() -> None:
    shares = [Share.parse(f" {index}/4") for index in range(4)]
    assert [list(share.of(iter(range(10)))) for share in shares] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
    assert [share.number_of(10) for share in shares] == [3, 3, 2, 2]
    assert [str(share) for share in shares] == ["0/4", "1/4", "2/4", "3/4"]
    assert list(Share().of(iter(range(3)))) == [0, 1, 2]


NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2026-12-01T12:00:00Z", "2026-12-01 13:00:00+01:00", "20261201T120000Z", str(int(NOON.timestamp()))]
)
def test_a_time_to_start(text: str) -> None:
    assert start_time(text) == NOON
    assert ProfileConfig.create(url="h", start_at=text).start_at == "2026-12-01T12:00:00+00:00"
    assert start_time_ns(start_time("1796126400.25")) == 1_796_126_400_250_000_000


@pytest.mark.parametrize("text", ["", "noon", "12:00:00Z", "17961264", "1796126400000", "2026-13-01T00:00:00Z"])
def test_no_time_to_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--start-at: .*expected a time such as 2026-12-01T12:00:00Z"):
        ProfileConfig.create(url="h", start_at=text)


def test_a_time_without_a_zone_is_ambiguous() -> None:
    with pytest.raises(ConfigError, match="has no time zone, and clients may be in several: add Z"):
        ProfileConfig.create(url="h", start_at="2026-12-01T12:00:00")


@dataclass
class Listener:
    """Note what is to be sent, and when it was due."""

    found: list[tuple[Any, ...]] = field(default_factory=list)
    in_flight = 0

    async def converse(self, first: PlannedRequest, sink: Sink, stop: Stop, end_ns: int | None) -> bool:
        due = None if first.scheduled_ns is None else first.scheduled_ns - START
        prompts = [(prompt.id, prompt.content_hash, len(prompt.later)) for prompt in first.prompts]
        self.found.append((first.phase, first.index, due, prompts))
        return True


async def sent(config: ProfileConfig) -> list[tuple[Any, ...]]:
    """Return what a client sends in both phases, and when each is due."""
    listener = Listener()
    # A clock that shows a time after everything: nothing is waited for, and what is due when is still told.
    runner = PhaseRunner(config, open_workload(config), listener, lambda record: None, Stop(), lambda: 10**15)
    for phase in Phase:
        assert await runner.run(phase, START) is None
        assert runner.unsent == 0
    return sorted(listener.found, key=lambda each: (each[0], each[1]))


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Prompts of one to three turns, each with a time."""
    path = tmp_path / "prompts.jsonl"
    rows = [
        {"timestamp": 7 * index, "turns": [f"{index} turn {turn}" for turn in range(1 + index % 3)]}
        for index in range(11)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


LOADS: list[dict[str, Any]] = [
    {},
    {"concurrency": 4, "warmup_request_count": 5},
    {"concurrency": 2, "request_count": 40, "dataset_sampling_strategy": "shuffle", "random_seed": 3},
    {"request_count": 25, "dataset_sampling_strategy": "random", "num_prompts": 6},
    {"request_rate": 50.0, "warmup_request_count": 4},
    {"request_rate": 50.0, "request_count": 29, "arrival_pattern": "constant", "concurrency": 3},
    {"fixed_schedule": True},
    {"fixed_schedule": True, "fixed_schedule_start_offset": 10, "num_prompts": 7, "concurrency": 2},
]


@pytest.mark.parametrize("load", LOADS, ids=str)
@pytest.mark.parametrize("clients", [3, 4])
async def test_clients_together_send_what_one_would(load: dict[str, Any], clients: int, prompts: Path) -> None:
    shared = {"url": "h", "input_file": prompts, "custom_dataset_type": "multi_turn", **load}
    whole = await sent(ProfileConfig.create(**shared))
    shares = [ProfileConfig.create(**shared, share=f"{index}/{clients}") for index in range(clients)]
    found = [await sent(config) for config in shares]
    together = sorted((each for of_one in found for each in of_one), key=lambda each: (each[0], each[1]))
    assert together == whole
    profiled = [[each for each in of_one if each[0] is Phase.PROFILING] for of_one in found]
    assert max(map(len, profiled)) - min(map(len, profiled)) <= 1


async def test_batches_are_shared_out_whole(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": str(number)}) + "\n" for number in range(10)))
    shared: dict[str, Any] = {"url": "h", "input_file": path, "endpoint_type": "completions", "batch_size_text": 3}
    whole = await sent(ProfileConfig.create(**shared))
    configs = [ProfileConfig.create(**shared, share=f"{index}/2") for index in range(2)]
    assert [await sent(config) for config in configs] == [whole[::2], whole[1::2]]
    info = open_workload(configs[0]).info
    assert [own_requests_of(config, info, Phase.PROFILING) for config in configs] == [2, 2]


def test_a_client_knows_how_many_are_its_own() -> None:
    config = ProfileConfig.create(url="h", request_count=10, warmup_request_count=4, share="1/3")
    info = open_workload(config).info
    assert [own_requests_of(config, info, phase) for phase in (Phase.WARMUP, Phase.PROFILING)] == [1, 3]


def test_the_first_request_is_the_clients_own(prompts: Path) -> None:
    config = ProfileConfig.create(url="h", input_file=prompts, custom_dataset_type="multi_turn", share="2/3")
    assert first_request(config)[2]["messages"][0]["content"] == "2 turn 0"
    with pytest.raises(ConfigError, match="--share 11/12 leaves this client nothing to send"):
        first_request(config.model_copy(update={"share": "11/12"}))


def test_a_share_is_sent_by_several_processes_too(simulate: Simulate, prompts: Path) -> None:
    settings: dict[str, Any] = {"input_file": prompts, "custom_dataset_type": "multi_turn", "request_rate": 200.0}
    settings |= {"url": simulate("vllm").url, "max_tokens": 4, "workers": 2, "share": "1/2"}
    result = profile(ProfileConfig.create(**settings))
    assert [record.prompt_id for record in result.profiled() if not record.turn_index] == [
        f"line-{line}" for line in (2, 4, 6, 8, 10)
    ]
    assert all(record.succeeded for record in result.records)
    # The counters are of all clients: nothing of one client is compared with them.
    assert result.server_metrics is not None
    assert result.reconciliation is None


def test_the_schedule_begins_at_the_start(simulate: Simulate, prompts: Path) -> None:
    settings: dict[str, Any] = {"input_file": prompts, "custom_dataset_type": "multi_turn", "fixed_schedule": True}
    settings |= {"url": simulate("vllm").url, "max_tokens": 4, "share": "1/3", "warmup_request_count": 3}
    # How long a client takes until it is ready depends on the machine.
    result: RunResult | None = None
    for seconds in (3, 12, 50):
        start = datetime.now(UTC) + timedelta(seconds=seconds)
        config = ProfileConfig.create(**settings, server_metrics=False, start_at=start.isoformat())
        with suppress(ConfigError):  # too late before its first request
            result = profile(config)
            if result.failure is None:
                break
            # Too late after its warm-up, it sends nothing else.
            assert {record.phase for record in result.records} == {Phase.WARMUP}
    assert result is not None
    first = next(record for record in result.profiled() if record.prompt_id == "line-2" and not record.turn_index)
    assert (first.scheduled_ns or 0) + result.wall_offset_ns == start_time_ns(start) + 7_000_000
    assert first.start_ns >= (first.scheduled_ns or 0)


def at(start: datetime) -> ProfileConfig:
    return ProfileConfig.create(url="h", start_at=start.isoformat())


def test_a_start_has_to_come() -> None:
    now = start_time_ns(NOON)
    check_start(ProfileConfig.create(url="h"), now)
    check_start(at(NOON), now)
    with pytest.raises(ConfigError, match=r"--start-at 2026-12-01T12:00:00\+00:00 passed 2.5 s before"):
        check_start(at(NOON), now + 2_500_000_000)
    with pytest.raises(ConfigError, match=r"is 2\.0 days away"):
        check_start(at(NOON + timedelta(days=2)), now)


async def test_waiting_for_the_start() -> None:
    offset, stop = time.time_ns() - time.perf_counter_ns(), Stop()
    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    start = await wait_for_start(at(soon), offset, time.perf_counter_ns, stop)
    assert start == start_time_ns(soon) - offset
    assert time.perf_counter_ns() >= start
    # By now it has passed: requests that were due would all go out at once.
    late = await wait_for_start(at(soon), offset, time.perf_counter_ns, stop)
    assert isinstance(late, SpecProfileError)
    assert "passed" in late.message
    stop.request("SIGINT")
    assert isinstance(await wait_for_start(at(NOON + timedelta(days=99)), 0, lambda: 0, stop), int)
    assert isinstance(await wait_for_start(ProfileConfig.create(url="h"), 0, lambda: 7, Stop()), int)
