"""The block with which a run ends: what was measured, and the figures that are looked for first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.answer import Answer, Setup, TotalsAnswer
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.metrics.stats import Stats
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.acceptance import DropReason
from aiperf_spec.models.run import DatasetInfo, RunResult
from aiperf_spec.models.server_metrics import Agreement, Reconciliation
from aiperf_spec.render.missing import explained, figure
from aiperf_spec.render.server_side import length_text
from aiperf_spec.render.text import count, middle, number, plural, printable

_LABEL = 19
"""Columns of the labels, and the width from which on they have a column of their own."""
_WIDE = 72


@dataclass(slots=True, frozen=True)
class Line:
    """A label and what is said under it, in parts that no narrow terminal breaks where it can help it."""

    label: str
    parts: Sequence[str]


@dataclass(slots=True, frozen=True)
class AnswerBlock:
    """Lines that fill the terminal's width part by part; below 72 columns, labels have no column of their own."""

    heading: Sequence[str]
    lines: Sequence[Line]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the block as lines of text."""
        width = options.max_width
        indent = _LABEL if width >= _WIDE else 2
        yield Text("─" * width, style="dim")
        yield from _filled("", self.heading, width, 0, "bold")
        for line in self.lines:
            yield from _filled(line.label, line.parts, width, indent, "")


def _filled(label: str, parts: Sequence[str], width: int, indent: int, style: str) -> Iterator[Text]:
    line = Text(label.ljust(indent) if indent == _LABEL else label, style="bold" if label else "")
    started = False
    for part in parts:
        gap = " " if line.plain.endswith(";") else "  " if started else " " if label and indent != _LABEL else ""
        fits = not line.plain.strip() or len(line) + len(gap) + len(part) <= width
        first, *more = [part] if fits and len(line) + len(part) <= width else wrap(part, width - indent) or [part]
        if not fits:
            yield line
            line, gap = Text(" " * indent), ""
        line.append(gap + first, style=style)
        for rest in more:
            yield line
            line = Text(" " * indent).append(rest, style=style)
        started = True
    yield line


def setup_parts(setup: Setup, *, with_length: bool = True) -> list[str]:
    """Return engine with version, drafter and draft length in words, each where it is known."""
    known = known_engines()
    names = [known[name].name if name in known else printable(name, 40) for name in setup.engines]
    engine = ", ".join(names)
    if setup.version is not None:
        engine = f"{engine} {printable(setup.version, 40)}".strip()
    method = [] if setup.method is None else [printable(setup.method, 40)]
    known_length = setup.draft_lengths and with_length
    k = [f"k {', '.join(map(str, setup.draft_lengths))}"] if known_length else []
    return [*([engine] if engine else []), *method, *k]


def answer_block(result: RunResult, answer: Answer) -> AnswerBlock:
    """Return the block of a run."""
    config = result.config
    setup = ", ".join(setup_parts(answer.setup))
    how = "streaming" if config.streaming else "not streaming"
    load = [f"concurrency {config.concurrency_cap}"] if config.concurrency_cap is not None else []
    if config.request_rate is not None:
        load.insert(0, f"{config.request_rate:g}/s")
    heading = [
        *([setup] if setup else []),
        middle(result.model, 60),
        ", ".join([config.endpoint_type, how, *load]),
        _prompts(result.dataset, answer),
    ]
    return AnswerBlock(heading, list(_lines(answer)))


def _prompts(dataset: DatasetInfo, answer: Answer) -> str:
    requests = answer.summary.due
    # The analysis counts those that reported; a file may hold more than were sent.
    prompts = answer.length.n if answer.summary.acceptance.requests == requests else dataset.entries
    if not prompts:
        return plural(requests, "request")
    if dataset.has_conversations:
        return f"{plural(prompts, 'conversation')}, {plural(requests, 'request')}"
    passes, others = divmod(requests, prompts)
    if others or not passes:
        return plural(requests, "request")
    return plural(prompts, "prompt") + (f" x {passes}" if passes > 1 else "")


def _lines(answer: Answer) -> Iterator[Line]:
    if not answer.summary.succeeded:
        yield Line("Requests", list(_requests(answer.summary, answer.stopped_by)))
        return
    if answer.length.value is not None:
        yield Line("Acceptance length", [figure(answer.length), _interval(answer.length), *_extremes(answer)])
        prompts = answer.rate.n != answer.length.n
        known = answer.rate.value is not None
        rate = [f"{figure(answer.rate, 1)} %", _interval(answer.rate, 1, prompts=prompts)] if known else ["–"]
        if answer.drafted_share is not None:
            rate.append(f"a draft in {100 * answer.drafted_share:.0f} % of decode steps")
        yield Line("Draft acceptance", rate)
    elif (totals := answer.totals) is not None and (
        totals.least_length == totals.greatest_length or answer.counted is None
    ):
        yield from _totals(totals)
    elif (counted := answer.counted) is not None:
        yield Line("Acceptance length", [length_text(counted), "(server's counters, all traffic)"])
        yield Line("Draft acceptance", ["–" if counted.rate is None else f"{number(counted.rate, 1)} %"])
    yield Line("Output", list(_times(answer)))
    said = [*_requests(answer.summary, answer.stopped_by), *_counters(answer)]
    yield Line("Requests", [*(f"{part};" for part in said[:-1]), said[-1]])


def _totals(totals: TotalsAnswer) -> Iterator[Line]:
    least, greatest = number(totals.least_length), number(totals.greatest_length)
    said = f"({plural(totals.requests, 'request')} without verify steps)"
    yield Line("Acceptance length", [least if least == greatest else f"{least} to {greatest}", said])
    yield Line("Draft acceptance", ["–" if totals.rate is None else f"{number(totals.rate, 1)} %"])


def _interval(estimate: Estimate, decimals: int = 2, *, prompts: bool = True) -> str:
    if estimate.low is not None and estimate.high is not None:
        low, high = (number(end, decimals) for end in (estimate.low, estimate.high))
        return f"(95 %: {low} to {high}" + (f", {plural(estimate.n, 'prompt')})" if prompts else ")")
    if estimate.reason in (None, Missing.NO_RECORDS):
        return "(no interval without records)"
    if estimate.reason is Missing.TOO_FEW:
        return f"(n too small for an interval: {plural(estimate.n, 'prompt')})"
    return f"(no interval: {explained(estimate.reason)})"


def _extremes(answer: Answer) -> list[str]:
    if answer.best is None or answer.worst is None:
        return []
    (best, most), (worst, least) = answer.best, answer.worst
    return [f"best {middle(best, 20)} {number(most)}, worst {middle(worst, 20)} {number(least)}"]


def _times(answer: Answer) -> Iterator[str]:
    if answer.tokens_per_second is not None:
        yield f"{number(answer.tokens_per_second, 1)} tok/s{outage_clause(answer)}"
    if answer.ttft is None and answer.itl is None:
        yield from _percentiles("Latency", answer.latency)
    yield from _percentiles("TTFT", answer.ttft)
    yield from _percentiles("ITL", answer.itl)


def outage_clause(answer: Answer) -> str:
    """Return that an outage is, or is not, in the throughput; empty where there was none."""
    if answer.outage_s is None:
        return ""
    return f" ({'without' if answer.outage_apart else 'with'} an outage of {number(answer.outage_s, 1)} s)"


def _percentiles(name: str, stats: Stats | None) -> Iterator[str]:
    if stats is not None:
        yield f"{name} p50 {_ms(stats.value('p50'))} p99 {_ms(stats.value('p99'))} ms"


def _ms(value: float) -> str:
    return number(value, 1 if value < 10 else 0)


def _requests(summary: Summary, stopped_by: str | None) -> Iterator[str]:
    reported = summary.acceptance.requests
    done = f"{count(summary.succeeded)} of {count(summary.due)} succeeded"
    stopped = "" if stopped_by is None else f" (stopped early by {stopped_by})"
    if 0 < summary.succeeded == summary.due == reported and not stopped:
        yield f"{done} and reported"
        return
    yield ", ".join([done, *others_said(summary)]) + stopped
    if summary.succeeded:
        told = ((reason, n) for reason, n in summary.drop_reasons.items() if reason is not DropReason.FAILED)
        reasons = ", ".join(f"{count(n)} {reason}" for reason, n in told)
        said = f"{count(reported)} of {count(summary.succeeded)} reported acceptance"
        yield f"{said} ({reasons})" if reasons else said


def others_said(summary: Summary) -> list[str]:
    """Return how many requests did not succeed, by how they ended."""
    others = ((summary.failed, "failed"), (summary.cancelled, "cancelled"), (summary.unsent, "never sent"))
    return [f"{count(n)} {what}" for n, what in others if n]


def _counters(answer: Answer) -> Iterator[str]:
    if answer.summary.acceptance.requests:
        yield agreement(answer.reconciliation)


def agreement(found: Reconciliation | None) -> str:
    """Return in a clause how the server's counters stand to what the requests reported."""
    if found is None:
        return "no server counters to compare"
    if found.agreement is Agreement.EXACT:
        return "the server's counters agree"
    if not found.agreement.known:
        return "the server's counters cannot be compared"
    steps = found.steps.difference or 0
    if not steps:
        return "the server's counters differ"
    return f"the server counted {plural(abs(steps), 'verify step')} {'more' if steps > 0 else 'fewer'}"
