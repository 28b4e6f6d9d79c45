"""What `timings_per_token` costs a llama-server: .venv/bin/python tests/bench/running_totals.py PORT PID PROMPTS.jsonl.

Sends every prompt with and without it, in turns. A row is the median over 6 turns of the server's CPU us a token (from
/proc, so on Linux), the bytes of the body a token, and the fastest response in ms.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

TURNS = 6
TOKENS = 128


class Cost(NamedTuple):
    """What one turn took."""

    cpu_us: float
    body_bytes: float
    fastest_ms: float


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def turn(port: int, pid: int, prompts: list[object], *, asked: bool) -> Cost:
    begun, size, times = cpu_seconds(pid), 0, []
    for messages in prompts:
        body = {"messages": messages, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "stream": True}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        start = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps({**body, "timings_per_token": asked}))
        size += len(connection.getresponse().read())
        times.append(time.perf_counter() - start)
        connection.close()
    tokens = TOKENS * len(prompts)
    return Cost(1e6 * (cpu_seconds(pid) - begun) / tokens, size / tokens, 1000 * min(times))


def main() -> None:
    port, pid = int(sys.argv[1]), int(sys.argv[2])
    prompts = [json.loads(line)["messages"] for line in Path(sys.argv[3]).read_text().splitlines()]
    turn(port, pid, prompts, asked=False)
    taken: dict[bool, list[Cost]] = {False: [], True: []}
    for number in range(TURNS):
        for asked in (False, True) if number % 2 else (True, False):
            taken[asked].append(turn(port, pid, prompts, asked=asked))
    print("| timings_per_token | CPU us a token | bytes a token | fastest ms |\n| --- | --- | --- | --- |")
    for asked, costs in taken.items():
        cpu, size = statistics.median(c.cpu_us for c in costs), costs[0].body_bytes
        print(f"| {asked} | {cpu:.0f} | {size:.0f} | {min(c.fastest_ms for c in costs):.1f} |")


if __name__ == "__main__":
    main()
