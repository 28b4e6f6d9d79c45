"""Keep what the scrapes of one endpoint said, cheaply: a scrape falls between the stamps of a running measurement."""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field

from aiperf_spec.adapters.engines import grows_with_steps
from aiperf_spec.server_metrics.text import Family, Labels, NotPrometheusError, parse, sample_of, series_of, value_of

_TYPE = re.compile(r"# TYPE \S+ \w+\s*$")
START_TIME = "process_start_time_seconds"


@dataclass(slots=True)
class GaugeSeries:
    """The values of one gauge: `values[i]` was read at `times[i]`, in ns. Only changes are kept."""

    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))


class Snapshots:
    """Take the scrapes of one endpoint in.

    The first and the last text are read in full, by the parser, once the run is over. Until then only the lines that
    changed are looked at, and their text but for the value names the series: parsing all of it takes some 10 ms, for
    which the stamps of every stream would wait.
    """

    def __init__(self) -> None:
        self.first: dict[str, Family] = {}
        self.first_ns = 0
        self.last: dict[str, Family] = {}
        self.last_ns = 0
        self.reads: array[int] = array("q")
        """When each text was read, in ns."""
        self.restarted = False
        """Whether a time at which the process or a counter began has changed: by a restart, or another replica."""
        self._first_text = ""
        self._text = ""
        self._lines: frozenset[str] = frozenset()
        self._known: dict[str, float] = {}
        self._gauges: dict[str, GaugeSeries] = {}
        self._fell: set[str] = set()
        self._counters: frozenset[str] = frozenset()

    def begin(self, at_ns: int, text: str) -> None:
        """Take the text from which counters grow; forgets what came before.

        Raises `NotPrometheusError` for a text that declares no metric: the parser itself has its turn after the run.
        """
        types = dict(line.replace(".", "_").split(" ", 3)[2:4] for line in text.split("\n") if _TYPE.match(line))
        if not types:
            raise NotPrometheusError("no metric in it")
        self._first_text = text
        self.first_ns = at_ns
        self.reads = array("q")
        self._lines, self._known, self._gauges, self._fell = frozenset(), {}, {}, set()
        self.restarted = False
        self._counters = frozenset(name.removesuffix("_total") for name, kind in types.items() if kind == "counter")
        self.add(at_ns, text)

    def add(self, at_ns: int, text: str) -> None:
        """Take a later text in."""
        lines = frozenset(text.split("\n"))
        for line in lines - self._lines:
            if "_bucket{" in line or (sample := sample_of(line)) is None:
                continue
            prefix = sample[0]
            try:
                value = value_of(float(sample[1]))
            except ValueError:
                continue
            before, counts = self._known.get(prefix), self._counts(prefix)
            # Whether a counter fell is told by the numbers before and after one that is none.
            if before == value or (counts and math.isnan(value)):
                continue
            self._known[prefix] = value
            if before is not None and value < before:
                self._fell.add(prefix)
            if before is not None and abs(value - before) > 0:
                self.restarted |= prefix.partition("{")[0].endswith(("_created", START_TIME))
            if not counts:
                gauge = self._gauges.setdefault(prefix, GaugeSeries())
                gauge.times.append(at_ns)
                gauge.values.append(value)
        self._lines, self._text = lines, text
        self.reads.append(at_ns)
        self.last_ns = at_ns

    def _counts(self, prefix: str) -> bool:
        name = prefix.partition("{")[0]
        return name.removesuffix("_total") in self._counters or name.endswith(("_count", "_sum", "_created"))

    def finish(self) -> None:
        """Read the first and the last text in full; raises `NotPrometheusError`."""
        self.first, self.last = parse(self._first_text), parse(self._text)
        # Metrics that came up during the run are known by the last text only.
        self._counters |= {name for name, family in self.last.items() if family.type == "counter"}

    def counters(self) -> dict[str, float]:
        """Return the counters of steps, by line: those that must stand still before figures are taken."""
        return {
            prefix: value
            for prefix, value in self._known.items()
            if (name := prefix.partition("{")[0].removesuffix("_total")) in self._counters and grows_with_steps(name)
        }

    def gauges(self) -> dict[tuple[str, Labels], GaugeSeries]:
        """Return the values of each gauge over time, by name and labels."""
        named = {series_of(prefix): gauge for prefix, gauge in self._gauges.items()}
        return {key: gauge for key, gauge in named.items() if key is not None}

    def fallen(self) -> set[tuple[str, Labels]]:
        """Return the series whose value fell between two reads, by the counter's name (or sample's) and labels."""
        named = (series_of(prefix) for prefix in self._fell)
        return {(name.removesuffix("_total"), labels) for name, labels in (key for key in named if key is not None)}
