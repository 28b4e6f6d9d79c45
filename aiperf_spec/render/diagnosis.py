"""What one request shows of a server: its engine, whether it speculates and reports, and what to change."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import ErrorKind, RequestRecord, RunResult
from aiperf_spec.models.server_metrics import ServerMetrics
from aiperf_spec.models.units import NS_PER_MS
from aiperf_spec.render.notices import ASK_DIRECTLY, ENABLE, engine_of
from aiperf_spec.render.tables import REASONS
from aiperf_spec.render.text import count, number, plural, printable

ENGINES = {"vllm": "vLLM", "tensorrt_llm": "TensorRT-LLM", "sglang": "SGLang"}
_SPECULATE = {
    "vllm": """start vLLM with a drafter, such as --speculative-config '{"method": "ngram", """
    """"num_speculative_tokens": 5, "prompt_lookup_max": 4}'""",
    "tensorrt_llm": "give TensorRT-LLM a speculative_config in its configuration",
    "sglang": "start SGLang with a drafter: --speculative-algorithm EAGLE3 (or another) and its draft model",
}
_DETAILED = (
    "optional: --per-request-spec-decode-metrics detailed reports single steps too, which drift within responses and "
    "the curve of short drafts need"
)
_ASKING = "add --extra-inputs return_spec_tokens_details:true to your runs: SGLang reports where a request asks for it"
_USAGE = "leave stream_options.include_usage on: vLLM reports on the usage chunk"


@dataclass(slots=True, frozen=True)
class ServerInfo:
    """What a server says of itself; None where it does not."""

    owner: str | None
    engine: str | None
    version: str | None = None
    algorithm: str | None = None
    """SGLang's speculative algorithm."""


@dataclass(slots=True, frozen=True)
class Diagnosis:
    """What is shown: rows of (name, text, style), and what to change. `reported` says that acceptance came."""

    rows: list[tuple[str, str, str]]
    changes: list[str]
    reported: bool


def diagnose(result: RunResult, server: ServerInfo, *, asked_for_user: bool = False) -> Diagnosis:
    """Return the diagnosis of a run of one request; `asked_for_user` says that it asked SGLang, which runs do not."""
    record = result.profiled()[0] if result.profiled() else None
    acceptance = None if record is None else record.acceptance
    engine = (acceptance.engine if acceptance is not None else None) or server.engine or engine_of(result.owned_by)
    counted = _speculates(result.server_metrics, server)
    rows = [
        ("Server", _server(result, server, engine), ""),
        ("Model", printable(result.model, 120), ""),
        ("Request", *_request(record)),
    ]
    if record is None or not record.succeeded:
        return Diagnosis(rows, [_mend(record)], reported=False)
    reported = acceptance is not None or record.drop_reason is DropReason.ZERO_STEP
    rows += [("Speculation", *_speculation(record, counted)), ("Per request", *_reporting(record, engine))]
    changes = _changes(record, engine, counted, asked=_asked(result), reported=reported)
    if asked_for_user and reported:
        changes.append(_ASKING)
    return Diagnosis(rows, changes, reported)


def diagnosis_report(diagnosis: Diagnosis) -> RenderableType:
    """Return a diagnosis as lines, and what to change below."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
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


def _server(result: RunResult, server: ServerInfo, engine: str | None) -> str:
    name = "an engine that is not known" if engine is None else ENGINES.get(engine, printable(engine, 40))
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


def _mend(record: RequestRecord | None) -> str:
    if record is None or record.error is None or record.error.kind is ErrorKind.CANCELLED:
        return "ask again: the request was stopped before it ended"
    if record.error.kind is ErrorKind.CONNECT:
        return "check that the server runs and that --url names it"
    if record.error.status in (401, 403):
        return "give the server's key with --api-key or OPENAI_API_KEY"
    if record.error.status == 404:
        return "check --model against /v1/models, and the path that --url names"
    return "make this request succeed first: nothing can be said before"


def _speculates(metrics: ServerMetrics | None, server: ServerInfo) -> bool | None:
    """Return whether the server's own counters or settings say that it speculates; None where they do not say."""
    if server.algorithm is not None:
        return server.algorithm.lower() != "none"
    if metrics is None:
        return None
    counters = [metric for name, metric in metrics.metrics.items() if "spec_" in name and metric.type == "counter"]
    if any((metric.total() or 0) > 0 for metric in counters):
        return True
    of_vllm = [name for name in metrics.metrics if name.startswith("vllm:")]
    # vLLM has these counters where, and only where, it was started with a drafter.
    return any(name.startswith("vllm:spec_decode") for name in of_vllm) if of_vllm else None


def _speculation(record: RequestRecord, counted: bool | None) -> tuple[str, str]:
    acceptance = record.acceptance
    if acceptance is not None:
        k = "" if acceptance.num_spec_tokens is None else f", k {acceptance.num_spec_tokens}"
        accepted = (
            f"{count(acceptance.num_accepted_draft_tokens)} of {count(acceptance.num_draft_tokens)} drafts accepted"
        )
        return f"on: {plural(acceptance.num_spec_steps, 'verify step')}, {accepted}{k}", "green"
    if record.drop_reason is DropReason.ZERO_STEP:
        return "on, but nothing was drafted in so short a response", "green"
    if counted is None:
        return "not known: neither the response nor the server's counters say", "yellow"
    return ("on, by the server's own counters", "green") if counted else ("off, by the server's own counters", "red")


def _reporting(record: RequestRecord, engine: str | None) -> tuple[str, str]:
    acceptance = record.acceptance
    if acceptance is None:
        if record.drop_reason is DropReason.ZERO_STEP:
            return "on", "green"
        reason = record.drop_reason or DropReason.ABSENT
        return ("off: " if reason is DropReason.ABSENT else "unusable: ") + REASONS[reason], "red"
    if engine == "vllm":
        return ("on, summary" if acceptance.per_step_accepted is None else "on, detailed"), "green"
    return "on", "green"


def _asked(result: RunResult) -> bool:
    return result.config.extra_inputs.get("return_spec_tokens_details") is True


def _changes(
    record: RequestRecord, engine: str | None, counted: bool | None, *, asked: bool, reported: bool
) -> list[str]:
    acceptance = record.acceptance
    if reported:
        short = engine == "vllm" and acceptance is not None and acceptance.per_step_accepted is None
        return [_DETAILED] if short else []
    if record.drop_reason is not DropReason.ABSENT:
        return ["an adapter for this payload: see `spec-profile adapters` and examples/custom_adapter", ASK_DIRECTLY]
    changes = []
    for name in [engine] if engine in ENABLE else list(ENABLE):
        of = "" if engine in ENABLE else f"where it is {ENGINES[name]}: "
        if counted is not True:
            changes.append(of + _SPECULATE[name])
        if name != "sglang" or not asked:
            changes.append(of + ENABLE[name])
    if engine in ("vllm", None) and record.usage is None:
        changes.append(_USAGE)
    # Where nothing is drafted, there is nothing that a proxy could have taken out.
    return changes if counted is False else [*changes, ASK_DIRECTLY]
