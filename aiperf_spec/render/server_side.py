"""The server's own counters and timing beside what its responses reported and what was measured here."""

from collections.abc import Callable

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.server_acceptance import ServerAcceptance, server_acceptance
from aiperf_spec.metrics.latency import inter_token_latency, request_latency, time_to_first_token
from aiperf_spec.metrics.stats import describe
from aiperf_spec.metrics.table import RECORD_METRICS, Group
from aiperf_spec.models.drafter import ServerDrafter
from aiperf_spec.models.run import RequestRecord, RunResult
from aiperf_spec.models.server_metrics import Agreement, Reconciliation
from aiperf_spec.render.layout import pairs, table_of
from aiperf_spec.render.missing import explained
from aiperf_spec.render.text import count, number, plural, printable
from aiperf_spec.render.words import WORDS

_POSITIONS = 16
"""Positions that a line lists."""
_CAPTION = (
    "The server's TTFT begins when a request is scheduled, after the queue; ours also includes the queue, "
    "tokenisation, the network and both programs."
)


def drafter_text(drafter: ServerDrafter) -> str:
    """Return in words how a server says that it drafts."""
    if drafter.method is None:
        return "none, by the server's settings"
    parts = [printable(drafter.method, 40)]
    if drafter.branches == 1 and drafter.draft_length is not None:
        parts.append(f"chains of {plural(drafter.draft_length, 'token')}")
    else:
        if drafter.branches is not None and drafter.branches > 1:
            parts.append(f"trees of {drafter.branches} branches")
        if drafter.verified is not None:
            parts.append(f"{plural(drafter.verified, 'token')} verified a step")
    return ", ".join([*parts, "of adaptive length"] if drafter.adaptive else parts)


def reconciliation_table(reconciliation: Reconciliation) -> RenderableType:
    """Return both sides of each count, the difference, and what it means."""
    table = table_of(("<", "requests", "server", "difference"), title="What the server counted")
    unknown = "reset" if reconciliation.agreement is Agreement.RESET else "no number"
    for row in reconciliation.counts:
        difference = "–" if row.difference is None else f"{row.difference:+,}" if row.difference else "0"
        ours = "–" if row.requests is None else count(row.requests)
        table.add_row(row.name, ours, unknown if row.server is None else count(row.server), difference)
    exact = reconciliation.agreement is Agreement.EXACT
    parts: list[RenderableType] = [table, Text(verdict(reconciliation), style="green" if exact else "yellow")]
    if reconciliation.cached_tokens:
        found = f"{count(reconciliation.cached_tokens)} of {plural(reconciliation.prompt_tokens or 0, 'prompt token')}"
        parts.append(Text(f"Its prefix cache held {found} (of all clients' requests).", style="dim"))
    return Renderables(*parts)


def server_acceptance_table(reconciliation: Reconciliation, succeeded: int) -> RenderableType:
    """Return acceptance by the server's own counters, for a run whose requests reported none; or why there is none."""
    found = server_acceptance(reconciliation)
    title = Text.assemble(("Acceptance", "bold"), " by the server's counters, all traffic")
    said = f"0 of {plural(succeeded, 'successful request')} reported acceptance."
    if not isinstance(found, ServerAcceptance):
        return Renderables(title, Text(f"{said} No figures: {explained(found)}.", style="yellow"))
    grid = pairs()
    grid.add_row("Acceptance length", Text(length_text(found), style="bold"))
    if found.proposed is None:
        grid.add_row("Draft acceptance rate", "–  (the server does not count what it proposes)")
    else:
        drafts = f"{count(found.accepted)} of {plural(found.proposed, 'draft token')} accepted"
        rate = "–" if found.rate is None else f"{number(found.rate)} %"
        grid.add_row("Draft acceptance rate", Text.assemble((rate, "bold"), f"  ({drafts})"))
    if found.reached:
        shown = ", ".join(f"{number(100 * share, 1)}" for share in found.positions[:_POSITIONS])
        more = ", ..." if len(found.reached) > _POSITIONS else ""
        grid.add_row("Position acceptance", f"{shown}{more} %  (unconditional, k {len(found.reached)})")
    grid.add_row("Verify steps", count(found.steps))
    if others := reconciliation.others:
        said += f" The server also finished {plural(others, 'request')} that this run did not send."
    if not reconciliation.settled:
        said += " Its counters were still changing when they were read."
    if not found.is_exact:
        said += f" A range: {explained(Missing.COUNTERS_BOUND_ONLY)}."
    return Renderables(title, grid, Text(said, style="dim"))


def length_text(found: ServerAcceptance) -> str:
    """Return the acceptance length, or the least and the greatest one that the counters allow."""
    return number(found.length) if found.is_exact else f"{number(found.least_length)} to {number(found.length)}"


def verdict(reconciliation: Reconciliation) -> str:
    """Return in words how the two sides stand to each other, and what may account for a difference."""
    steps = reconciliation.steps.difference or 0
    own = sum(reconciliation.requests_silent.values())
    if reconciliation.agreement is Agreement.RESET:
        return (
            "A counter of the server was reset during the run, so there is nothing to compare with: the server was "
            "restarted, or several replicas answer here in turn (name each with --server-metrics-url)."
        )
    if reconciliation.agreement is Agreement.NO_NUMBER:
        return "A counter of the server was no number (NaN or infinite), so there is nothing to compare with."
    if reconciliation.agreement is Agreement.EXACT:
        what = " drafts, and some no verify steps" if reconciliation.steps.requests is None else ""
        text = f"They agree exactly, over {plural(reconciliation.requests_reported, 'request')} that reported{what}"
        return f"{text}; {_silent(reconciliation)} cost no verify step." if own else f"{text}."
    if reconciliation.agreement is Agreement.SERVER_FEWER:
        text = "The server counted less than its responses reported: not every engine behind --url was read"
        text += " (--server-metrics-url), or it counts late."
    elif reconciliation.agreement is Agreement.MIXED:
        text = "The verify steps agree, but other counts differ."
    else:
        more = plural(steps, "verify step") if steps else "drafts"
        text = f"The server ran {more} more than our requests reported: "
        text += _accounts(reconciliation, own)
    if not reconciliation.settled:
        text += " Its counters were still changing when they were read."
    return text


def _accounts(reconciliation: Reconciliation, own: int) -> str:
    finished, others = reconciliation.server_requests, reconciliation.others
    beyond = 0 if finished is None else max(finished - reconciliation.requests_reported, 0)
    if own == 0:
        known = f" ({plural(others, 'request')} that {'is' if others == 1 else 'are'} not ours)" if others else ""
        return f"all of ours reported, so these are other traffic{known}."
    if others:
        return f"{_silent(reconciliation)} did not report, and at least {plural(others, 'request')} were not ours."
    text = f"{_silent(reconciliation)} did not report, and the difference includes any other traffic"
    return f"{text}; it finished {plural(beyond, 'request')} beyond those that reported." if beyond else f"{text}."


def _silent(reconciliation: Reconciliation) -> str:
    silent = reconciliation.requests_silent
    words = WORDS["no record, of ours"]
    parts = (f"{count(n)} {printable(words.get(reason, reason))}" for reason, n in silent.items())
    return f"{plural(sum(silent.values()), 'request')} of ours ({', '.join(parts)})"


def server_timing_table(result: RunResult) -> RenderableType | None:
    """Return the medians of both sides over the requests whose response had the server's; None where none had."""
    timed = [record for record in measured(result.records) if record.server_timing is not None]
    if not timed:
        return None
    table = table_of(("<", "n", "server", "here"), title="Server-side timing, medians")
    for metric in RECORD_METRICS:
        if metric.group is not Group.SERVER:
            continue
        values = [(record, metric.value(record)) for record in timed]
        known = [(record, value) for record, value in values if isinstance(value, float | int)]
        theirs = describe([value for _, value in known])
        if theirs is None:
            continue
        measure = _OURS.get(metric.tag)
        ours = None if measure is None else describe([v for r, _ in known if (v := measure(r)) is not None])
        unit = " (ms)" if metric.unit == "ms" else ""
        here = "–" if ours is None else number(ours.value("p50"))
        table.add_row(f"{metric.label}{unit}", count(theirs.count), number(theirs.value("p50")), here)
    return Renderables(table, Text(_CAPTION, style="dim"))


def _generation_time(record: RequestRecord) -> float | None:
    first, latency = time_to_first_token(record), request_latency(record)
    return None if first is None or latency is None else latency - first


def _tokens_per_second(record: RequestRecord) -> float | None:
    latency = request_latency(record)
    return None if not latency or record.output_tokens is None else record.output_tokens / latency * 1000


_OURS: dict[str, Callable[[RequestRecord], float | None]] = {
    "server_time_to_first_token": time_to_first_token,
    "server_generation_time": _generation_time,
    "server_inter_token_latency": inter_token_latency,
    "server_output_token_throughput_per_user": _tokens_per_second,
}
