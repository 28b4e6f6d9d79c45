"""Runs against an engine, and what the bytes of their responses say, read without the program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.profiling import Hooks, ProfileResult, profile_async
from tests.acceptance_figures import figures_of
from tests.derive_expected import acceptance_of
from tests.engines.server import MODEL, Server
from tests.engines.table import ENGINES

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
CODE = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n"
PROMPTS = Path(__file__).parent.parent / "aiperf" / "speed_bench_8.jsonl"
CODE_PROMPTS = Path(__file__).parent / "code_prompts.jsonl"
"""24 beginnings of classes and functions."""
DRAFTED = ("spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")


def write_prompts(folder: Path, *texts: str, **fields: Any) -> Path:
    """Write a file of prompts, all with these fields beside the text."""
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"text": text, **fields}) + "\n" for text in texts))
    return file


def write_rows(folder: Path, *rows: dict[str, Any]) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


async def profiled(server: Server, hooks: Hooks | None = None, **settings: Any) -> ProfileResult:
    """Profile at temperature 0, every event kept, with acceptance asked for."""
    given: dict[str, Any] = {"temperature": 0, "max_tokens": 48, "model": MODEL, "use_server_token_count": True}
    given |= {"request_timeout_seconds": 300, **settings}
    given["extra_inputs"] = {**server.engine.inputs, **settings.get("extra_inputs", {})}
    config = ProfileConfig(url=server.url, export_level=ExportLevel.RAW, **given)
    return await profile_async(config, hooks or Hooks())


def events_of(record: RequestRecord) -> list[dict[str, Any]]:
    """Return what came for a request, as JSON."""
    assert record.raw is not None
    data = ("".join(value for name, value in fields if name == "data") for _, fields in record.raw.events)
    found = [json.loads(text) for text in data if text.strip() != "[DONE]"]
    return [event for event in found if event is not None]


def assert_read_from_its_bytes(server: Server, record: RequestRecord) -> dict[str, Any]:
    """Hold a record against the bytes that came for it, and return what these say of acceptance."""
    assert record.error is None, record.error
    assert record.raw is not None
    events = events_of(record)
    said = acceptance_of(server.engine.name, record.raw.payload, events)
    assert figures_of(record) == said.get("record", said.get("drop"))
    if "totals" in said:
        totals = record.draft_totals
        assert totals is not None
        assert (totals.num_draft_tokens, totals.num_accepted_draft_tokens) == (
            said["totals"]["drafted"],
            said["totals"]["accepted"],
        )
        assert totals.completion_tokens == said["totals"]["completion_tokens"]
    usages = [event["usage"] for event in events if event.get("usage")]
    if usages and said.get("drop") != "multi_sequence":
        assert record.usage is not None
        assert record.usage.completion_tokens == usages[-1]["completion_tokens"]
    return said


def summed(records: Sequence[RequestRecord]) -> Counter[str]:
    """Return the records' figures under the names of the server's counters, those that it has and are not zero."""
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
    engines = {record.acceptance.engine for record in records if record.acceptance is not None}
    uncounted = tuple(name for engine in ENGINES if engine.name in engines for name in engine.uncounted)
    return Counter({name: value for name, value in total.items() if value and not name.startswith(uncounted)})


def assert_totals_are_the_servers(records: Iterable[RequestRecord], grown: Counter[str]) -> None:
    """Hold drafts that were reported without their steps against the counters."""
    reports = [record.draft_totals for record in records]
    known = [report for report in reports if report is not None]
    assert len(known) == len(reports)
    proposed = sum(report.num_draft_tokens for report in known)
    accepted = sum(report.num_accepted_draft_tokens for report in known)
    assert (proposed, accepted) == tuple(grown[name] for name in DRAFTED)
    fewest, most = sum(report.fewest_steps for report in known), sum(report.most_steps for report in known)
    assert fewest <= grown["spec_decode_num_drafts"] <= most
