"""What one request shows of a server: its engine, whether it speculates and reports, and what to change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_spec.adapters.description import EngineDescription, recognised
from aiperf_spec.adapters.engines import counts_speculation, known_engines
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, RequestRecord, RunResult
from aiperf_spec.models.units import NS_PER_MS
from aiperf_spec.render.layout import pairs
from aiperf_spec.render.notices import ASK_DIRECTLY
from aiperf_spec.render.server_side import drafter_text
from aiperf_spec.render.text import count, number, plural, printable
from aiperf_spec.render.words import WORDS
from aiperf_spec.wire.remedies import remedy


@dataclass(slots=True, frozen=True)
class ServerInfo:
    """What a server says of itself; None where it does not."""

    owner: str | None
    engine: str | None
    version: str | None = None


@dataclass(slots=True, frozen=True)
class Diagnosis:
    """What is shown: rows of (name, text, style), and what to change. `reported` says that acceptance came."""

    rows: list[tuple[str, str, str]]
    changes: list[str]
    reported: bool


def diagnose(result: RunResult, server: ServerInfo, *, asked_for_user: bool = False) -> Diagnosis:
    """Return the diagnosis of a run of one request; `asked_for_user` says that it asked as runs do not."""
    record = result.profiled()[0] if result.profiled() else None
    acceptance = None if record is None else record.acceptance
    engines = known_engines()
    found = server.engine or recognised(result.owned_by, engines) if acceptance is None else acceptance.engine
    engine = None if found is None else engines.get(found, EngineDescription(name=printable(found, 40)))
    counted = _speculates(result)
    rows = [
        ("Server", _server(result, server, engine), ""),
        ("Model", printable(result.model, 120), ""),
        ("Request", *_request(record)),
    ]
    if result.drafter is not None:
        rows.append(("Drafter", drafter_text(result.drafter), ""))
    if record is None or not record.succeeded:
        return Diagnosis(rows, [_mend(record, has_key=bool(result.config.api_key))], reported=False)
    reported = acceptance is not None or record.drop_reason is DropReason.ZERO_STEP
    rows += [("Speculation", *_speculation(record, counted)), ("Per request", *_reporting(record, engine))]
    changes = _changes(record, engine, counted, result.config.extra_inputs, reported=reported)
    if asked_for_user and reported and engine is not None:
        changes.append(f"add {engine.inputs_option} to your runs: {engine.name} reports where a request asks for it")
    return Diagnosis(rows, changes, reported)


def diagnosis_report(diagnosis: Diagnosis) -> RenderableType:
    """Return a diagnosis as lines, and what to change below."""
    grid = pairs("bold")
    for name, text, style in diagnosis.rows:
        grid.add_row(name, Text(text, style=style))
    if not diagnosis.changes:
        return Renderables(grid, "", Text("Nothing to change.", style="green"))
    parts: list[RenderableType] = [grid, "", Text("To change", style="bold")]
    for change in diagnosis.changes:
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row("-", Text(change))
        parts.append(line)
    return Renderables(*parts)


def _server(result: RunResult, server: ServerInfo, engine: EngineDescription | None) -> str:
    name = "an unknown engine" if engine is None else engine.name
    if server.version is not None:
        name += f" {printable(server.version, 40)}"
    owner = "" if server.engine is not None or server.owner is None else f" (owned_by {printable(server.owner, 40)})"
    return f"{name}{owner} at {printable(result.url)}"


def _request(record: RequestRecord | None) -> tuple[str, str]:
    if record is None:
        return "none was sent", "red"
    if record.error is not None:
        status = "" if record.error.status is None else f" {record.error.status}"
        return f"failed: {record.error.kind}{status}: {printable(record.error.message, 300)}", "red"
    tokens = "" if record.output_tokens is None else f", {plural(record.output_tokens, 'token')}"
    took = number((record.end_ns - record.start_ns) / NS_PER_MS, 0)
    return f"answered in {took} ms{tokens}", "green"


def _mend(record: RequestRecord | None, *, has_key: bool) -> str:
    if record is None or record.error is None or record.error.kind is ErrorKind.CANCELLED:
        return "ask again: the request was stopped before it ended"
    return (
        remedy(record.error, has_key=has_key)
        or "make this request succeed first: nothing else can be checked until it does"
    )


def _speculates(result: RunResult) -> bool | None:
    """Return whether the server's own counters or settings say that it speculates; None where they do not say."""
    if result.drafter is not None:
        return result.drafter.method is not None
    metrics = result.server_metrics
    if metrics is None:
        return None
    found, known = metrics.metrics, [engine.counters for engine in known_engines().values()]
    counted = [metric for name, metric in found.items() if metric.type == "counter" and counts_speculation(name)]
    if any((metric.total() or 0) > 0 for metric in counted):
        return True
    for counters in known:
        prefix = counters.prefix_without_drafter
        if prefix is not None and any(name.startswith(prefix) for name in found):
            return not counters.of_speculation.isdisjoint(found)
    return None


def _speculation(record: RequestRecord, counted: bool | None) -> tuple[str, str]:
    acceptance = record.acceptance
    if acceptance is not None:
        k = "" if acceptance.num_spec_tokens is None else f", k {acceptance.num_spec_tokens}"
        of = "" if acceptance.proposed is None else f" of {count(acceptance.proposed)}"
        accepted = f"{count(acceptance.num_accepted_draft_tokens)}{of} drafts accepted"
        return f"on: {plural(acceptance.num_spec_steps, 'verify step')}, {accepted}{k}", "green"
    if (totals := record.draft_totals) is not None:
        of = f"{count(totals.num_accepted_draft_tokens)} of {count(totals.num_draft_tokens)}"
        return f"on: {of} drafts accepted", "green"
    if record.drop_reason is DropReason.ZERO_STEP:
        return "on, but nothing was drafted in this short response", "green"
    if counted is None:
        return "not known: neither the response nor the server's counters say", "yellow"
    return ("on, by the server's own counters", "green") if counted else ("off, by the server's own counters", "red")


def _reporting(record: RequestRecord, engine: EngineDescription | None) -> tuple[str, str]:
    acceptance = record.acceptance
    if acceptance is None:
        if record.drop_reason is DropReason.ZERO_STEP:
            return "on", "green"
        reason = record.drop_reason or DropReason.ABSENT
        return ("off: " if reason is DropReason.ABSENT else "unusable: ") + WORDS["no record"][reason], "red"
    if engine is not None and engine.per_step_option is not None:
        return ("on, summary" if acceptance.per_step_accepted is None else "on, detailed"), "green"
    return "on", "green"


def _changes(
    record: RequestRecord,
    engine: EngineDescription | None,
    counted: bool | None,
    inputs: Mapping[str, Any],
    *,
    reported: bool,
) -> list[str]:
    acceptance, option = record.acceptance, None if engine is None else engine.per_step_option
    if reported:
        if option is None or acceptance is None or acceptance.per_step_accepted is not None:
            return []
        needed_by = "drift within responses and the curve of short drafts"
        return [f"optional: {option} reports single steps too, which {needed_by} need"]
    if record.draft_totals is not None and engine is not None and engine.how_to_report is not None:
        return [engine.how_to_report]
    if record.drop_reason is not DropReason.ABSENT:
        return ["an adapter for this payload: see `spec-profile adapters` and examples/custom_adapter", ASK_DIRECTLY]
    changes = []
    if record.output_tokens is not None and record.output_tokens <= 1:
        changes.append("ask for a longer answer (--extra-inputs ignore_eos:true): one token needs no verify step")
        counted = True if counted is None else counted
    candidates = list(known_engines().values()) if engine is None else [engine]
    for each in candidates:
        of = "" if engine is not None else f"where it is {each.name}: "
        if counted is not True and each.enable_speculation is not None:
            changes.append(of + each.enable_speculation)
        if each.how_to_report is not None and not each.is_asked_by(inputs):
            changes.append(of + each.how_to_report)
    if record.usage is None:
        changes += [
            f"leave stream_options.include_usage on: {each.name} reports on the usage chunk"
            for each in candidates
            if each.reports_on_usage_chunk
        ]
    # Where nothing is drafted, there is nothing that a proxy could have taken out.
    return changes if counted is False else [*changes, ASK_DIRECTLY]
