"""Time `spec-profile report` against `aiperf speed-bench-report` on the same generated records.

    python tests/bench/report_bench.py [--records 200000] [--aiperf PATH/aiperf] [--folder DIR]

A line is one of AIPerf's own records of a real vLLM run, with its category and its counts; both commands read the same
file and print the same matrix. Time is the whole command's less that of the command on two records, for the start of
an interpreter says nothing about reading. Prints a table.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEER = Path(__file__).parents[1] / "aiperf" / "vllm-speedbench"
SUMMARY, RECORDS = "profile_export_aiperf.json", "profile_export.jsonl"


def generate(folder: Path, records: int) -> int:
    """Write a run of so many records; return the bytes of its JSONL."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(PEER / SUMMARY, folder / SUMMARY)
    lines = [line for line in (PEER / RECORDS).read_bytes().splitlines(keepends=True) if b'"warmup"' not in line]
    with (folder / RECORDS).open("wb") as file:
        for start in range(0, records, 1000):
            file.write(b"".join(lines[i % len(lines)] for i in range(start, min(start + 1000, records))))
    return (folder / RECORDS).stat().st_size


def seconds(command: list[str]) -> tuple[float, str]:
    """Return the wall time of a command and what it printed."""
    start = time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, ran.stdout


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--aiperf", default=shutil.which("aiperf"))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    commands = {
        "spec-profile report": [sys.executable, "-m", "aiperf_spec", "report", "--source", "records"],
        "spec-profile report --intervals": [sys.executable, "-m", "aiperf_spec", "report", "--intervals"],
    }
    if options.aiperf:
        commands["aiperf speed-bench-report"] = [
            *(options.aiperf, "speed-bench-report", "--format", "table", "--source", "records"),
        ]
    with tempfile.TemporaryDirectory() as made:
        base = options.folder or Path(made)
        size = generate(base / "many", options.records)
        generate(base / "few", 2)
        print(f"{options.records:,} records, {size / 1e6:,.0f} MB")
        print(f"{'command':34} {'whole s':>8} {'start s':>8} {'records/s':>12} {'MB/s':>7}")
        for name, command in commands.items():
            start = min(seconds([*command, str(base / "few")])[0] for _ in range(options.repeat))
            whole = min(seconds([*command, str(base / "many")])[0] for _ in range(options.repeat))
            net = max(whole - start, 1e-9)
            rate, volume = options.records / net, size / 1e6 / net
            print(f"{name:34} {whole:8.2f} {start:8.2f} {rate:12,.0f} {volume:7,.0f}")


if __name__ == "__main__":
    main()
