"""Profile the simulator with a prompt file of a gigabyte: memory stays flat, and the first request leaves at once.

    python tests/bench/large_file.py [--megabytes 1024] [--requests 2000] [--gzip]

Prints the size of the file, the time from the start of the command to its first request, and the most memory that it
held, beside those of the same run over a small file. Runs apart from the tests: it writes the file to a temporary
folder.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO, cast

from aiperf_spec.simulator import SimulatorConfig
from aiperf_spec.simulator.process import SimulatorProcess

_TEXT = "Explain, in the simplest words that you can find, how a heat pump works. "


def write(path: Path, megabytes: float, *, compressed: bool) -> int:
    """Write rows of about 4 kB until the text has the size; return the number of rows."""
    row = json.dumps({"text": _TEXT * 56, "category": "qa"}).encode() + b"\n"
    rows = max(1, int(megabytes * 1e6 / len(row)))
    with cast(BinaryIO, gzip.GzipFile(path, "wb", compresslevel=1)) if compressed else path.open("wb") as file:
        for start in range(0, rows, 1000):
            file.write(row * min(1000, rows - start))
    return rows


def run(url: str, prompts: Path, out: Path, requests: int) -> tuple[float, float, float]:
    """Return seconds to the first request, seconds in all, and the peak of resident memory in MB."""
    command = [sys.executable, "-m", "aiperf_spec", "--url", url, "--input-file", str(prompts), "--rows", "0"]
    command += ["--request-count", str(requests), "--concurrency", "16", "--max-tokens", "4", "--no-server-metrics"]
    command += ["--artifact-dir", str(out), "--model", "simulated-model"]
    began_ns, began = time.time_ns(), time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if child.returncode:
        raise SystemExit(f"the run ended with {child.returncode}")
    lines = (out / "profile_export.jsonl").read_text().splitlines()
    first_ns = min(json.loads(line)["metadata"]["request_start_ns"] for line in lines)
    return (first_ns - began_ns) / 1e9, seconds, usage.ru_maxrss / 1024


def main() -> None:
    """Compare a large file with a small one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1024)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--gzip", action="store_true")
    options = parser.parse_args()
    config = SimulatorConfig(engine="vllm", step_time_ms=0.1, prefill_time_ms=0.1)
    with tempfile.TemporaryDirectory() as folder, SimulatorProcess(config) as simulator:
        for name, megabytes in (("small", 1.0), ("large", options.megabytes)):
            path = Path(folder) / f"{name}.jsonl{'.gz' if options.gzip else ''}"
            rows = write(path, megabytes, compressed=options.gzip)
            first, seconds, peak = run(simulator.url, path, Path(folder) / name, options.requests)
            size = path.stat().st_size / 1e6
            print(
                f"{name}: {size:,.0f} MB, {rows:,} rows; first request after {first:.2f} s of {seconds:.2f} s, "
                f"peak memory {peak:.0f} MB"
            )


if __name__ == "__main__":
    main()
