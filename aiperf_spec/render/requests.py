"""The table of single requests."""

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.metrics.latency import request_latency, time_to_first_token
from aiperf_spec.models.run import ErrorKind, RequestRecord, RunResult
from aiperf_spec.render.histogram import sparkline
from aiperf_spec.render.layout import table_of
from aiperf_spec.render.text import count, middle, number, printable
from aiperf_spec.render.words import WORDS

_RIGHT = ("TTFT ms", "latency ms", "out tok", "accept length", "rate %", "steps", "acc/ prop")
_DROPS = ("hist", "out\ntok", "steps", "category", "acc/\nprop", "TTFT\nms", "rate\n%")


def requests_table(result: RunResult, rows: int) -> RenderableType:
    """Return the first `rows` requests, and a line that says where the others are."""
    records = result.profiled()
    shown = records[:rows]
    columns = ("Request", "<category", "<outcome", *(name.replace(" ", "\n") for name in _RIGHT), "<hist")
    table = table_of(columns, map(_row, shown), drops=_DROPS)
    return Renderables(table, Text(_rest(result, len(records), len(shown)), style="dim"))


def _row(record: RequestRecord) -> list[RenderableType]:
    start: list[RenderableType] = [
        str(record.index),
        Text(middle(record.category or "–", 8)),
        _outcome(record),
        number(time_to_first_token(record), 1),
        number(request_latency(record), 1),
        "–" if record.output_tokens is None else count(record.output_tokens),
    ]
    acceptance = record.acceptance
    if acceptance is None:
        return [*start, "–", "–", "–", "–", ""]
    return [
        *start,
        number(acceptance.length),
        number(None if acceptance.rate is None else acceptance.rate * 100, 1),
        count(acceptance.num_spec_steps),
        f"{acceptance.num_accepted_draft_tokens}/{'–' if acceptance.proposed is None else acceptance.proposed}",
        Text(sparkline(acceptance.acceptance_histogram), style="cyan", no_wrap=True, overflow="crop"),
    ]


def _outcome(record: RequestRecord) -> Text:
    if record.error is not None:
        if record.error.kind is ErrorKind.HTTP_STATUS:
            return Text(f"HTTP {record.error.status}", style="red")
        return Text(WORDS["outcome"].get(record.error.kind, record.error.kind), style="red")
    if record.drop_reason is not None:
        return Text(WORDS["outcome"].get(record.drop_reason, record.drop_reason), style="yellow")
    return Text("ok", style="green")


def _rest(result: RunResult, total: int, shown: int) -> str:
    folder = result.artifact_dir
    if folder is not None and result.config.export_level is not ExportLevel.SUMMARY:
        where = f"all are in {printable(str(folder / 'profile_export.jsonl'), 400)}"
    else:
        where = "--export-level records writes all of them"
    return f"{count(shown)} of {count(total)} shown (--rows); {where}"
