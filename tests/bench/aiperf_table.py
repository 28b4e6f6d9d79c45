"""Profile one server with AIPerf and with this program, and print their figures side by side.

    python -m tests.bench.aiperf_table URL MODEL TOKENIZER AIPERF FOLDER [RUNS]

AIPERF is its command, TOKENIZER a folder that it counts with. 16 requests over `tests/aiperf/speed_bench_8.jsonl`,
2 before to warm up, two at a time, 96 tokens each at temperature 0. Where the server sends its own timing
(`--enable-per-request-metrics`), it says which of the two stamped nearer to what it did itself.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROMPTS = Path(__file__).parent.parent / "aiperf" / "speed_bench_8.jsonl"
SUMMARY = "profile_export_aiperf.json"
RAW = "profile_export_raw.jsonl"
TIMED = (
    "time_to_first_token",
    "request_latency",
    "inter_token_latency",
    "inter_chunk_latency",
    "output_token_throughput_per_user",
    "request_throughput",
    "output_token_throughput",
    "benchmark_duration",
)
# One at a time: with two, a response depends on which others were in its batch, and clients start them differently.
_LOAD = ("--concurrency", "1", "--request-count", "16", "--warmup-request-count", "2", "--use-server-token-count")


@dataclass(frozen=True)
class Target:
    """What both profile: `tokenizer` is AIPerf's, `aiperf` its command."""

    url: str
    model: str
    tokenizer: str
    aiperf: str


def run_both(target: Target, folder: Path) -> tuple[Path, Path]:
    """Return the folders that AIPerf and this program wrote."""
    theirs, ours = folder / "aiperf", folder / "spec-profile"
    common = ["--url", target.url, "--model", target.model, *_LOAD, "--input-file", str(PROMPTS)]
    common += ["--export-level", "raw", "--artifact-dir"]
    options = ["--custom-dataset-type", "speed_bench_qualitative", "--endpoint-type", "chat", "--streaming"]
    options += ["--tokenizer", target.tokenizer, "--ui", "none"]
    for extra in ("max_tokens:96", "temperature:0", "ignore_eos:true"):
        options += ["--extra-inputs", extra]
    _run([target.aiperf, "profile", *common, str(theirs), *options])
    own = ["--max-tokens", "96", "--temperature", "0", "--extra-inputs", "ignore_eos:true", "--overwrite"]
    _run([sys.executable, "-m", "aiperf_spec", *common, str(ours), *own])
    return theirs, ours


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def summary_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return a run's metrics by tag."""
    values = json.loads((folder / SUMMARY).read_text())
    return {tag: value for tag, value in values.items() if isinstance(value, dict) and "unit" in value}


def differing(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Return which statistics of one metric differ by more than rounding."""
    shared = [name for name in theirs if name in ours and isinstance(theirs[name], int | float)]
    return [name for name in shared if abs(theirs[name] - ours[name]) > 1e-9 * max(1.0, abs(theirs[name]))]


def middle(metric: dict[str, Any]) -> float:
    """Return a metric's median; of one that is a single value, that."""
    value = metric.get("p50")
    return float(metric["avg"] if value is None else value)


def stamps_of(folder: Path) -> Iterator[tuple[float, float, dict[str, Any]]]:
    """Yield time to first content, first to last content (ms) and the server's `metrics`, from every event."""
    for line in (folder / RAW).read_text().splitlines():
        request = json.loads(line)
        if request["metadata"]["benchmark_phase"] != "profiling":
            continue
        contents: list[int] = []
        metrics: dict[str, Any] = {}
        for response in request["responses"]:
            for packet in response["packets"]:
                if packet["name"] != "data" or packet["value"].strip() == "[DONE]":
                    continue
                event = json.loads(packet["value"])
                metrics = event.get("metrics") or metrics
                if any((choice.get("delta") or {}).get("content") for choice in event["choices"]):
                    contents.append(response["perf_ns"])
        first, last = contents[0], contents[-1]
        yield (first - request["start_perf_ns"]) / 1e6, (last - first) / 1e6, metrics


def beside_server(folder: Path) -> tuple[float, float] | None:
    """Return the medians of (ours - server's) first token and first-to-last time, in ms; None where it sent none."""
    rows = [row for row in stamps_of(folder) if "generation_time_ms" in row[2]]
    if not rows:
        return None
    first = [ttft - m["queue_time_ms"] - m["time_to_first_token_ms"] for ttft, _, m in rows]
    return statistics.median(first), statistics.median([spent - m["generation_time_ms"] for _, spent, m in rows])


def main() -> None:
    url, model, tokenizer, aiperf, folder, *rest = sys.argv[1:]
    runs = [
        run_both(Target(url, model, tokenizer, aiperf), Path(folder) / str(n)) for n in range(int((rest or ["1"])[0]))
    ]
    both = [(summary_of(theirs), summary_of(ours)) for theirs, ours in runs]
    print("| tag | AIPerf | spec-profile | |\n| --- | --- | --- | --- |")
    for tag in both[0][0]:
        if tag in both[0][1] and tag not in TIMED:
            verdict = sorted({name for theirs, ours in both for name in differing(theirs[tag], ours[tag])})
            theirs, ours = (middle(side[tag]) for side in both[0])
            print(f"| {tag} | {theirs:.6g} | {ours:.6g} | {', '.join(verdict) or 'equal'} |")
    for tag in TIMED:
        cells = [" / ".join(f"{middle(pair[side][tag]):.4g}" for pair in both) for side in (0, 1)]
        print(f"| {tag} ({both[0][0][tag]['unit']}), p50 a run | {cells[0]} | {cells[1]} | |")
    for index, what in enumerate(("TTFT", "first to last token")):
        sides = [[beside_server(pair[side]) for pair in runs] for side in (0, 1)]
        cells = [" / ".join("–" if found is None else f"{found[index]:+.1f}" for found in side) for side in sides]
        print(f"| {what}, less the server's own (ms), p50 a run | {cells[0]} | {cells[1]} | |")


if __name__ == "__main__":
    main()
