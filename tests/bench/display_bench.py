"""Measure what the live display costs: its share of a core while a run takes 10,000 chunks a second.

    python tests/bench/display_bench.py [--requests 1000] [--concurrency 100]

The run goes against `flood_server.py` with 100 chunks a request, one in 10 ms. The display draws on a pseudo-terminal
that is read all the time. Prints CPU time of drawing and of taking records, and how long a drawing took.
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from aiperf_spec.config.choices import Ui
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import Phase, RequestRecord
from aiperf_spec.profiling import Hooks, profile
from aiperf_spec.render.progress import Display


class Measured(Display):
    taken: float = 0.0

    def draw(self) -> None:
        begun = time.thread_time()
        super().draw()
        DRAWS.append(time.thread_time() - begun)

    def sink(self, record: RequestRecord) -> None:
        begun = time.thread_time()
        super().sink(record)
        self.taken += time.thread_time() - begun


DRAWS: list[float] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=100)
    options = parser.parse_args()
    flood = Path(__file__).with_name("flood_server.py")
    command = [sys.executable, str(flood), "--chunks", "100", "--itl-ms", "10"]
    ours, theirs = pty.openpty()
    reader = subprocess.Popen(["cat"], stdin=ours, stdout=subprocess.DEVNULL)
    os.environ["TERM"] = "xterm-256color"
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        config = ProfileConfig(
            url=f"http://127.0.0.1:{port}",
            model="m",
            concurrency=options.concurrency,
            request_count=options.requests,
            server_metrics=False,
        )
        with os.fdopen(theirs, "w") as terminal:
            display = Measured(Console(file=terminal, force_terminal=True, width=140, height=40), config, Ui.LIVE)
            display.expect({Phase.WARMUP: 0, Phase.PROFILING: options.requests})
            begun = time.monotonic()
            result = profile(config, Hooks(sinks=[display.sink], watch=display.watch))
            seconds = time.monotonic() - begun
    finally:
        server.terminate()
        server.wait()
        reader.terminate()
        reader.wait()
    chunks = sum(len(record.chunk_gaps_ns or ()) + 1 for record in result.records)
    drawing = sum(DRAWS)
    print(f"{chunks / seconds:,.0f} chunks/s for {seconds:.1f} s, {len(DRAWS)} drawings ({len(DRAWS) / seconds:.1f}/s)")
    print(f"drawing {drawing / seconds:.2%} of a core, {1e3 * drawing / len(DRAWS):.3f} ms each")
    print(f"taking records {display.taken / seconds:.2%} of a core")


if __name__ == "__main__":
    main()
