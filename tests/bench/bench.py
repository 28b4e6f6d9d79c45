"""Measure what the program itself costs, and print one table: .venv/bin/python tests/bench/bench.py [--runs 3].

Every row is the median over runs in which the clients take turns. CPU is the whole process's, start-up included; the
server's is not in it. `--aiperf PATH` adds AIPerf, where its command is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = str(Path(sysconfig.get_path("scripts")) / "spec-profile")
CHUNKS = 100


@contextmanager
def flood(itl_ms: float = 0.0) -> Iterator[int]:
    command = [sys.executable, str(HERE / "flood_server.py"), "--chunks", str(CHUNKS), "--itl-ms", str(itl_ms)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        server.communicate()


def timed(command: list[str]) -> tuple[float, float, int]:
    """Return CPU seconds, wall seconds and peak resident bytes of a command; end with its output if it fails."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            sys.exit(f"{command[0]} ended with {process.returncode}:\n{output.read().decode()[-2000:]}")
    factor = 1 if platform.system() == "Darwin" else 1024
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begun, usage.ru_maxrss * factor


def ours(port: int, requests: int, concurrency: int, folder: Path, *more: str) -> list[str]:
    return [
        *(PROGRAM, "--url", f"http://127.0.0.1:{port}", "--model", "m", "--request-count", str(requests)),
        *("--concurrency", str(concurrency), "--artifact-dir", str(folder), "--overwrite", *more),
    ]


def aiperf(command: str, tokenizer: str, port: int, requests: int, concurrency: int, folder: Path) -> list[str]:
    return [
        *(command, "profile", "--url", f"http://127.0.0.1:{port}", "--model", "m", "--endpoint-type", "chat"),
        *("--streaming", "--request-count", str(requests), "--concurrency", str(concurrency), "--ui", "none"),
        *("--use-server-token-count", "--tokenizer", tokenizer, "--artifact-dir", str(folder)),
    ]


def run_seconds(folder: Path) -> float:
    """Return the run itself: first start to last end of its profiled requests."""
    starts, ends = [], []
    with (folder / "profile_export.jsonl").open() as lines:
        for line in lines:
            metadata = json.loads(line)["metadata"]
            starts.append(metadata["request_start_ns"])
            ends.append(metadata["request_end_ns"])
    return float(max(ends) - min(starts)) / 1e9


def percentile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))]


def lateness(folder: Path) -> dict[str, float]:
    """Return how late stamps were, and how wrong gaps between them, in ms."""
    late: list[float] = []
    gap_errors: list[float] = []
    with (folder / "profile_export_raw.jsonl").open() as lines:
        for line in lines:
            before: tuple[int, int] | None = None
            for response in json.loads(line)["responses"]:
                sent = re.search(r"t=(\d+) ", response["packets"][0]["value"])
                if sent is None:
                    continue
                now = (response["perf_ns"], int(sent.group(1)))
                late.append((now[0] - now[1]) / 1e6)
                if before is not None:
                    gap_errors.append(abs((now[0] - before[0]) - (now[1] - before[1])) / 1e6)
                before = now
    return {
        "stamp late p50 ms": percentile(late, 0.5),
        "stamp late p99 ms": percentile(late, 0.99),
        "stamp late max ms": max(late),
        "gap error p99 ms": percentile(gap_errors, 0.99),
    }


class Table:
    """Collect figures run by run, and print their medians."""

    def __init__(self) -> None:
        self.rows: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        self.rows.setdefault(name, []).append(value)

    def __str__(self) -> str:
        lines = ["| figure | median | min | max |", "| --- | --- | --- | --- |"]
        for name, values in self.rows.items():
            cells = (statistics.median(values), min(values), max(values))
            lines.append(f"| {name} | " + " | ".join(f"{value:.2f}" for value in cells) + " |")
        return "\n".join(lines)


def throughput(table: Table, requests: int, folder: Path, competitor: tuple[str, str] | None) -> None:
    chunks = requests * CHUNKS
    with flood() as port:
        raw_cpu, raw_wall, _ = timed([sys.executable, str(HERE / "raw_client.py"), str(port), str(requests), "32"])
        cpu, wall, _ = timed(ours(port, requests, 32, folder / "ours"))
        table.add("raw sockets: CPU us a chunk", raw_cpu / chunks * 1e6)
        table.add("raw sockets: requests/s", requests / raw_wall)
        table.add("spec-profile: CPU us a chunk", cpu / chunks * 1e6)
        table.add("spec-profile: CPU, times raw sockets", cpu / raw_cpu)
        inside = run_seconds(folder / "ours")
        table.add("spec-profile: requests/s", requests / inside)
        table.add("spec-profile: seconds outside the run", wall - inside)
        if competitor:
            cpu, wall, _ = timed(aiperf(*competitor, port, requests, 32, folder / "aiperf"))
            theirs = run_seconds(folder / "aiperf")
            table.add("AIPerf, its largest process: CPU us a chunk", cpu / chunks * 1e6)
            table.add("AIPerf: requests/s", requests / theirs)
            table.add("AIPerf: seconds outside the run", wall - theirs)


def memory(table: Table, requests: int, folder: Path) -> None:
    with flood() as port:
        _, _, small = timed(ours(port, requests // 10, 32, folder / "ours"))
        _, _, large = timed(ours(port, requests, 32, folder / "ours"))
    table.add(f"spec-profile: peak MB at {requests:,} requests", large / 1e6)
    table.add("spec-profile: bytes a further request", (large - small) / (requests * 0.9))


def fidelity(table: Table, folder: Path) -> None:
    for streams in (64, 200):
        with flood(itl_ms=10) as port:
            cpu, _, _ = timed(ours(port, streams * 5, streams, folder / "ours", "--export-level", "raw"))
        # Start-up included; one event a read, as servers send them.
        table.add(f"spec-profile, {streams} streams x 100 chunks/s: CPU us a chunk", cpu / (streams * 5 * CHUNKS) * 1e6)
        for name, value in lateness(folder / "ours").items():
            table.add(f"spec-profile, {streams} streams x 100 chunks/s: {name}", value)


def in_flight(table: Table, folder: Path) -> None:
    with flood(itl_ms=20) as port:
        timed(ours(port, 500, 500, folder / "ours"))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/peak") as answer:
            table.add("spec-profile: requests in flight at --concurrency 500", float(answer.read()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--memory-requests", type=int, default=100_000)
    parser.add_argument("--aiperf", help="path of AIPerf's command")
    parser.add_argument("--aiperf-tokenizer", default="builtin", help="what it counts tokens with: a local folder")
    parser.add_argument("--only", choices=["throughput", "memory", "fidelity", "in-flight"])
    options = parser.parse_args()
    table = Table()
    competitor = (options.aiperf, options.aiperf_tokenizer) if options.aiperf else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(options.runs):
            if options.only in (None, "throughput"):
                throughput(table, options.requests, folder, competitor)
            if options.only in (None, "fidelity"):
                fidelity(table, folder)
            if options.only in (None, "in-flight"):
                in_flight(table, folder)
            if number == 0 and options.only in (None, "memory"):
                memory(table, options.memory_requests, folder)
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {options.runs} runs\n")
    print(table)


if __name__ == "__main__":
    main()
