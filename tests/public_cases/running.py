"""Profile a case's server through the public entry, and read back everything that a user would see."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from aiperf_spec import ProfileConfig, ReportSettings, RequestRecord, RunResult, profile
from aiperf_spec.metrics.summary import Summary, summarise
from aiperf_spec.models.response import ParsedResponse
from aiperf_spec.models.run import NoticeKind
from aiperf_spec.profiling import Hooks
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.run_report import run_report
from aiperf_spec.wire.chunk import parse_event
from aiperf_spec.wire.sse import SSEEvent
from tests.public_cases.cases import Case
from tests.public_cases.stub import Stub, serving
from tests.public_cases.virtual_time import VirtualTime

MS = 1e6


@dataclass(frozen=True)
class Run:
    """A finished run: its result, what it printed, the files it wrote, and the server's side of it."""

    case: Case
    stub: Stub
    result: RunResult
    summary: Summary
    folder: Path

    @property
    def records(self) -> list[RequestRecord]:
        """The records, by index."""
        return self.result.profiled()

    @property
    def only(self) -> RequestRecord:
        """The one record."""
        (record,) = self.records
        return record

    @property
    def printed(self) -> str:
        """The report as a terminal shows it."""
        file = io.StringIO()
        Console(file=file, width=180, color_system=None).print(
            run_report(self.result, self.summary, settings=ReportSettings(rows=20, full=True))
        )
        return file.getvalue()

    def row(self, label: str) -> list[str]:
        """Return the words of the printed row that begins so, after the label; not of the answer that ends the run."""
        tables = self.printed.rpartition("\n──")[0]
        lines = [line for line in tables.splitlines() if line.startswith(label)]
        assert len(lines) == 1, f"{label!r} in\n{self.printed}"
        return lines[0].removeprefix(label).split()

    def notices(self, kind: NoticeKind) -> list[str]:
        """Return the run's notices of a kind, worded."""
        return [notice_text(notice) for notice in self.result.notices if notice.kind is kind]

    def raw_events(self, index: int) -> list[SSEEvent]:
        """Return a request's events as the raw export holds them."""
        (line,) = (line for line in self.raw_lines() if line["metadata"]["session_num"] == index)
        events = []
        for response in line["responses"]:
            fields = {packet["name"]: packet["value"] for packet in response.get("packets", ())}
            data = response["text"] if "text" in response else fields["data"]
            events.append(SSEEvent(data.encode(), fields.get("event", "").encode()))
        return events

    def responses(self, index: int) -> list[ParsedResponse]:
        """Return a request's events as the program reads them."""
        parsed = (parse_event(event, 0, ()) for event in self.raw_events(index))
        return [response for response in parsed if response is not None]

    def lines(self) -> list[dict[str, Any]]:
        """Return the exported records."""
        return json_lines(self.folder / "profile_export.jsonl")

    def raw_lines(self) -> list[dict[str, Any]]:
        """Return the exported exchanges."""
        return json_lines(self.folder / "profile_export_raw.jsonl")

    def document(self) -> dict[str, Any]:
        """Return the exported summary."""
        return strict_json((self.folder / "profile_export_aiperf.json").read_text())


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} in JSON")


def strict_json(text: str) -> dict[str, Any]:
    """Read JSON that holds neither NaN nor infinity."""
    value: dict[str, Any] = json.loads(text, parse_constant=_refuse)
    return value


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSONL file, each line strictly."""
    return [strict_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def run_case(case: Case, folder: Path, script: dict[str, Any] | None = None, **changes: Any) -> Run:
    """Profile the case's server, or another script's; `changes` are configuration beyond what the case asks.

    Stamps are of the server's virtual time: what a script waits for is exact, and all else takes next to nothing.
    """
    asked = case.request
    time = VirtualTime(asked["requests"], asked["concurrency"])
    with serving(case.script if script is None else script, time) as stub:
        values = {
            "url": stub.url,
            "model": "m",
            "endpoint_type": asked["endpoint"],
            "streaming": asked["stream"],
            "request_count": asked["requests"],
            "concurrency": asked["concurrency"],
            "max_tokens": asked.get("max_tokens"),
            "extra_inputs": asked.get("extra_body", {}),
            "export_level": "raw",
            "artifact_dir": folder,
        }
        result = profile(ProfileConfig.create(**values | changes), Hooks(on_stop=time.meet, clock=time.clock))
    return Run(case, stub, result, summarise(result.records), folder)


def latency_ms(record: RequestRecord) -> float:
    """Return start to last content."""
    assert record.last_content_ns is not None
    return (record.last_content_ns - record.start_ns) / MS


def first_token_ms(record: RequestRecord) -> float:
    """Return start to first content."""
    assert record.first_content_ns is not None
    return (record.first_content_ns - record.start_ns) / MS


def gaps_ms(record: RequestRecord) -> list[float]:
    """Return the gaps between content responses."""
    assert record.chunk_gaps_ns is not None
    return [gap / MS for gap in record.chunk_gaps_ns]
