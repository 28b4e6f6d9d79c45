"""What is shown of a run while it goes on: where it stands, as lines of text."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from rich.text import Text

from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.analysis.clusters import prompt_of
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.metrics.latency import inter_token_latency, time_to_first_token
from aiperf_spec.metrics.stats import percentile
from aiperf_spec.models.decoding import decoding, some_undrafted
from aiperf_spec.models.run import Phase, RequestRecord
from aiperf_spec.models.units import NS_PER_S
from aiperf_spec.render.histogram import folded
from aiperf_spec.render.text import count, number, plural

_RECENT_S = 10
_RECENT_MOST = 2000
"""Requests of the last 10 s that percentiles are taken of: sorting more would hold up the loop that stamps arrivals."""
_PROMPTS = 1000
"""Prompts whose sums are kept apart, for the same reason."""
_LABEL = 15
_WIDE = 120
"""Columns from which on the histogram stands beside the figures."""
_LEFT = 66


@dataclass(slots=True)
class PhaseProgress:
    """How many requests a phase will have, where that is known, and how many have ended."""

    total: int | None = None
    done: int = 0
    failed: int = 0
    started_ns: int | None = None

    def elapsed_s(self, now_ns: int) -> float:
        """Return the time since its first request began; 0 before one has ended."""
        return 0.0 if self.started_ns is None else max((now_ns - self.started_ns) / NS_PER_S, 0.0)


@dataclass(slots=True)
class RunProgress:
    """Where a run stands. `clock` stamps are of the monotonic clock, in ns; warm-up requests are in no figure."""

    config: ProfileConfig
    phases: dict[Phase, PhaseProgress] = field(default_factory=lambda: {phase: PhaseProgress() for phase in Phase})
    in_flight: int = 0
    """Requests under way."""
    totals: CategoryTotals = field(default_factory=lambda: CategoryTotals(_PROMPTS))
    histogram: Counter[int] = field(default_factory=Counter)
    verify_steps: int = 0
    decode_steps: int = 0
    _recent: deque[tuple[int, float | None, float | None]] = field(default_factory=lambda: deque(maxlen=_RECENT_MOST))
    _figures: tuple[int, tuple[Estimate, Estimate, str, str]] | None = None

    def expect(self, totals: Mapping[Phase, int | None]) -> None:
        """Say how many requests each phase will have; None where that is not known."""
        for phase, total in totals.items():
            self.phases[phase].total = total

    def take(self, record: RequestRecord) -> None:
        """Take a finished request into account."""
        counts = self.phases[record.phase]
        counts.done += 1
        if counts.started_ns is None or record.start_ns < counts.started_ns:
            counts.started_ns = record.start_ns
        if record.error is not None:
            counts.failed += 1
            if counts.total is not None:
                counts.total -= record.unsent_turns
            return
        if record.phase is Phase.WARMUP:
            return
        self._recent.append((record.end_ns, time_to_first_token(record), inter_token_latency(record)))
        if (decoded := decoding(record)) is not None:
            self.verify_steps += decoded.verify_steps
            self.decode_steps += decoded.steps
        report = record.acceptance
        if report is not None and report.num_spec_steps:
            sums = report.num_accepted_draft_tokens, report.num_spec_steps, report.proposed
            self.totals.add(prompt_of(record), 1, *sums)
            self.histogram.update(report.acceptance_histogram)

    @property
    def phase(self) -> Phase:
        """The phase that is going on."""
        warmup = self.phases[Phase.WARMUP]
        return Phase.WARMUP if warmup.done < (warmup.total or 0) else Phase.PROFILING

    @property
    def drafted(self) -> str:
        """What to say of the decode steps that had a draft, where some had none; else nothing."""
        share = self.verify_steps / self.decode_steps if self.decode_steps else None
        if share is None or not some_undrafted(share):
            return ""
        return f"a draft in {number(100 * share, 0)} % of decode steps"

    @property
    def changes(self) -> tuple[int, int]:
        """A value that differs where there is something new to show."""
        return sum(counts.done for counts in self.phases.values()), self.in_flight

    def figures(self, now_ns: int) -> tuple[Estimate, Estimate, str, str]:
        """Return the pooled length and rate so far, and "p50 ..., p99 ... ms" of TTFT and of ITL of the last 10 s.

        They are renewed once a second: intervals cost a millisecond.
        """
        second = int(now_ns // NS_PER_S)
        if self._figures is None or self._figures[0] != second:
            length, rate = self.totals.length(), self.totals.rate()
            while self._recent and self._recent[0][0] < now_ns - _RECENT_S * NS_PER_S:
                self._recent.popleft()
            first, between = ([value for each in self._recent if (value := each[i]) is not None] for i in (1, 2))
            self._figures = second, (length, rate, _described(sorted(first)), _described(sorted(between)))
        return self._figures[1]


def _described(ordered: Sequence[float]) -> str:
    if not ordered:
        return "–"
    return f"p50 {number(percentile(ordered, 50))}, p99 {number(percentile(ordered, 99))} ms"


def frame(progress: RunProgress, now_ns: int, width: int, height: int, *, ascii_only: bool = False) -> list[Text]:
    """Return the lines that show where a run stands, none of them as wide as the terminal."""
    full, empty = ("#", "-") if ascii_only else ("━", "─")
    lines = [_bar(progress, now_ns, width, full, empty), _indented(_state(progress, now_ns), width)]
    figures = _figures(progress, now_ns)
    space = (width - _LEFT if width >= _WIDE else width) - 1
    bars = _histogram(progress, space, "#" if ascii_only else "█")
    if width >= _WIDE:
        for left, right in zip_longest(figures, bars, fillvalue=Text()):
            lines.append(Text.assemble(left, " " * (_LEFT - left.cell_len), right) if right else left)
    else:
        lines += figures + bars
    lines = [part for line in lines for part in _folded(line, width)]
    return lines[: max(height - 1, 1)]


def _folded(line: Text, width: int) -> Iterator[Text]:
    # A figure that is cut looks like another one. What belongs together stands between two blanks.
    while line.cell_len >= width:
        end = max(line.plain.rfind("  ", _LABEL, width - 1), 0) or line.plain.rfind(" ", 3, width - 1)
        if end < 0:
            line.truncate(width - 1, overflow="ellipsis")
            break
        part, rest = line.divide([end])
        part.rstrip()
        yield part
        line = Text.assemble("  ", rest[len(rest.plain) - len(rest.plain.lstrip()) :])
    yield line


def _indented(line: Text, width: int) -> Text:
    # Where it is narrow, what is said matters more than where it stands.
    return Text.assemble(" " * _LABEL, line) if _LABEL + line.cell_len < width else line


def _label(text: str, style: str = "bold") -> tuple[str, str]:
    return f"{text:<{_LABEL}}", style


def _name(progress: RunProgress) -> str:
    return "warm-up" if progress.phase is Phase.WARMUP else "profiling"


def _bar(progress: RunProgress, now_ns: int, width: int, full: str, empty: str) -> Text:
    counts = progress.phases[progress.phase]
    head = _label(_name(progress), "bold yellow" if progress.phase is Phase.WARMUP else "bold")
    share = _share(progress, now_ns)
    said = f"{count(counts.done)} done" if counts.total is None else f"{count(counts.done)} of {count(counts.total)}"
    if share is None:
        return Text.assemble(head, said)
    size = max(min(width, 100) - _LABEL - len(said) - 9, 8)
    filled = round(size * share)
    return Text.assemble(head, (full * filled, "cyan"), (empty * (size - filled), "dim"), f"  {said}{share:5.0%}")


def _share(progress: RunProgress, now_ns: int) -> float | None:
    counts, duration = progress.phases[progress.phase], progress.config.benchmark_duration
    by_count = min(counts.done / counts.total, 1.0) if counts.total else None
    if progress.phase is Phase.WARMUP or duration is None:
        return by_count
    elapsed = counts.elapsed_s(now_ns)
    return min(max(elapsed / duration, by_count or 0.0), 1.0)


def _stage(progress: RunProgress, now_ns: int) -> str | None:
    """Return what keeps the load from being what was asked for: its beginning or its end."""
    counts, config = progress.phases[progress.phase], progress.config
    if progress.phase is Phase.WARMUP:
        return "in no figure"
    if config.benchmark_duration is not None and counts.elapsed_s(now_ns) > config.benchmark_duration:
        return "grace period"
    cap = config.concurrency
    if config.is_scheduled or cap == 1:
        return None
    if counts.total is not None and 0 < counts.total - counts.done < cap and counts.done:
        return "draining"
    return "ramp-up" if counts.done < cap else None


def _state(progress: RunProgress, now_ns: int) -> Text:
    counts = progress.phases[progress.phase]
    parts = [Text(f"{count(progress.in_flight)} in flight")]
    parts.append(Text(f"{count(counts.failed)} failed", "red" if counts.failed else "dim"))
    seconds = counts.elapsed_s(now_ns)
    if counts.done and seconds:
        parts.append(Text(f"{number(counts.done / seconds, 1)}/s"))
        if (left := _left_s(progress, now_ns)) is not None:
            parts.append(Text(f"{clock(left)} left"))
    if (stage := _stage(progress, now_ns)) is not None:
        parts.append(Text(stage, "yellow"))
    return Text.assemble(*[each for part in parts for each in ((", ", "dim"), part)][1:])


def _left_s(progress: RunProgress, now_ns: int) -> float | None:
    counts, duration = progress.phases[progress.phase], progress.config.benchmark_duration
    seconds = counts.elapsed_s(now_ns)
    guesses = []
    if counts.done == counts.total:
        return None
    if counts.total is not None and counts.done and seconds:
        guesses.append(max(counts.total - counts.done, 0) * seconds / counts.done)
    if duration is not None and progress.phase is Phase.PROFILING:
        guesses.append(max(duration - seconds, 0.0))
    return min(guesses) if guesses else None


def clock(seconds: float) -> str:
    """Return a time as "3:07", or "1:03:07"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _interval(estimate: Estimate, unit: str = "") -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "–" if estimate.value is None else f"{number(estimate.value)}{unit}"
    return f"{number(estimate.value)}{unit}  (95 %: {number(estimate.low)} to {number(estimate.high)})"


def _figures(progress: RunProgress, now_ns: int) -> list[Text]:
    length, rate, first, between = progress.figures(now_ns)
    prompts, requests = progress.totals.prompts, progress.totals.requests
    told = plural(requests, "request") if prompts is None else plural(prompts, "prompt")
    of = f", {told}" if requests else ""
    lines = [
        Text.assemble(_label("accept length"), _interval(length), (of, "dim")),
        Text.assemble(_label("draft rate"), _interval(rate, " %")),
    ]
    if progress.drafted:
        lines.append(Text.assemble(_label(""), progress.drafted))
    for name, latency in (("TTFT", first), ("ITL", between)):
        lines.append(Text.assemble(_label(name), latency, ("" if latency == "–" else ", last 10 s", "dim")))
    return lines


def _histogram(progress: RunProgress, width: int, block: str) -> list[Text]:
    if not progress.histogram:
        return []
    rows = folded(progress.histogram)
    total, peak = sum(steps for _, steps in rows), max(steps for _, steps in rows)
    size = max(min(width - _LABEL - 13, 40), 4)
    lines = []
    for i, (label, steps) in enumerate(rows):
        head, share = _label("" if i else "accepted"), (f"{100 * steps / total:5.1f} % ", "dim")
        lines.append(Text.assemble(head, f"{label:>3} ", share, (block * round(size * steps / peak), "cyan")))
    return lines


def simple_line(progress: RunProgress, now_ns: int) -> str:
    """Return where a run stands in one line without style, for a log."""
    counts = progress.phases[progress.phase]
    of = "" if counts.total is None else f" of {count(counts.total)}"
    parts = [f"{_name(progress)}: {count(counts.done)}{of} done, {_state(progress, now_ns).plain}"]
    length, rate, first, between = progress.figures(now_ns)
    if length.value is not None:
        parts.append(f"length {_interval(length)}, rate {_interval(rate, ' %')}".replace("  (", " ("))
    if progress.drafted:
        parts.append(progress.drafted)
    if first != "–" or between != "–":
        parts.append(f"last 10 s: TTFT {first}, ITL {between}")
    return "; ".join(parts)
