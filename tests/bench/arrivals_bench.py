"""Hold the arrivals of a real run against the exponential distribution: .venv/bin/python tests/bench/arrivals_bench.py.

Runs `spec-profile --request-rate 50 --benchmark-duration 20` against a simulator, and prints the rate that was achieved
and a Kolmogorov-Smirnov test of the gaps between the requests' starts.
"""

from __future__ import annotations

import json
import math
import subprocess
import sysconfig
import tempfile
from itertools import pairwise
from pathlib import Path

from aiperf_spec.simulator import SimulatorConfig
from aiperf_spec.simulator.process import SimulatorProcess

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "spec-profile")
RATE, SECONDS = 50.0, 20.0


def starts(folder: Path) -> list[float]:
    with (folder / "profile_export.jsonl").open() as lines:
        return sorted(json.loads(line)["metadata"]["request_start_ns"] / 1e9 for line in lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, SimulatorProcess(SimulatorConfig(engine="vllm")) as simulator:
        folder = Path(name) / "run"
        command = [PROGRAM, "--url", simulator.url, "--request-rate", str(RATE), "--benchmark-duration", str(SECONDS)]
        command += ["--max-tokens", "32", "--temperature", "0", "--artifact-dir", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        at = starts(folder)
    gaps = sorted(later - earlier for earlier, later in pairwise(at))
    exact = [1 - math.exp(-RATE * gap) for gap in gaps]
    n = len(gaps)
    distance = max(max(abs(f - i / n), abs(f - (i + 1) / n)) for i, f in enumerate(exact))
    achieved = len(at) / SECONDS
    off = 100 * (achieved / RATE - 1)
    print(f"{len(at)} requests in {SECONDS:g} s: {achieved:.2f} a second, {off:+.2f} % off {RATE:g}")
    print(f"Kolmogorov-Smirnov distance {distance:.4f}; below {1.36 / math.sqrt(n):.4f} it is exponential at 5 %")


if __name__ == "__main__":
    main()
