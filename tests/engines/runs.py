"""Runs against an engine, and what the bytes of their responses say, read without the program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import RequestRecord, RunResult
from aiperf_spec.profiling import Hooks, profile_async
from tests.derive_expected import payloads_of, record_of
from tests.engines.vllm_process import MODEL, Engine

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
CODE = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n"
PROMPTS = Path(__file__).parent.parent / "aiperf" / "speed_bench_8.jsonl"


def write_prompts(folder: Path, *texts: str) -> Path:
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return file


async def profiled(engine: Engine, hooks: Hooks | None = None, **settings: Any) -> RunResult:
    """Profile at temperature 0, every event kept."""
    given = {"temperature": 0, "max_tokens": 48, "model": MODEL, "use_server_token_count": True, **settings}
    config = ProfileConfig(url=engine.url, export_level=ExportLevel.RAW, request_timeout_seconds=120, **given)
    return await profile_async(config, hooks or Hooks())


def events_of(record: RequestRecord) -> list[dict[str, Any]]:
    """Return what came for a request, as JSON."""
    assert record.raw is not None
    data = ("".join(value for name, value in fields if name == "data") for _, fields in record.raw.events)
    return [json.loads(text) for text in data if text.strip() != "[DONE]"]


def payload_of(events: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    found = [payload for event in events for payload in payloads_of(event)]
    return found[-1] if found else None


def tokens_of(events: Iterable[dict[str, Any]]) -> int | None:
    usages = [event["usage"] for event in events if event.get("usage")]
    return usages[-1]["completion_tokens"] if usages else None


def read_directly(events: list[dict[str, Any]]) -> dict[str, Any] | str:
    """Return what a record of these events has to say."""
    payload = payload_of(events)
    return "absent" if payload is None else record_of("vllm", payload, tokens_of(events))


def summed(records: Iterable[RequestRecord]) -> Counter[str]:
    """Return the records' figures under the names of the server's counters."""
    total: Counter[str] = Counter()
    for record in records:
        if (got := record.acceptance) is None:
            continue
        total["spec_decode_num_drafts"] += got.num_spec_steps
        total["spec_decode_num_draft_tokens"] += got.num_draft_tokens
        total["spec_decode_num_accepted_tokens"] += got.num_accepted_draft_tokens
        for accepted, steps in got.acceptance_histogram.items():
            for position in range(accepted):
                total[f"spec_decode_num_accepted_tokens_per_pos[{position}]"] += steps
    return total


def speculation(counters: Counter[str]) -> Counter[str]:
    """Return the counters of speculation that are not zero."""
    return Counter({name: value for name, value in counters.items() if value and name.startswith("spec_")})
