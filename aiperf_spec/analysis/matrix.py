"""The acceptance matrix: models or runs down, categories across."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from statistics import fmean

from aiperf_spec.analysis.category_totals import CategoryTotals
from aiperf_spec.analysis.clusters import measured, overlap
from aiperf_spec.analysis.figure_names import FigureName
from aiperf_spec.analysis.gate_figures import Figures
from aiperf_spec.config.choices import ReportMetric, ReportSource
from aiperf_spec.metrics.table import RECORD_BY_TAG
from aiperf_spec.models.run import Phase, RequestRecord
from aiperf_spec.models.units import NS_PER_S

CONVENTIONAL: tuple[str, ...] = (
    *("coding", "humanities", "math", "multilingual", "qa", "rag", "reasoning", "roleplay", "stem"),
    *("summarization", "writing"),
    *("low_entropy", "mixed", "high_entropy"),
    *("gsm8k", "math500", "mtbench", "humaneval", "mbpp"),
)
"""SPEED-Bench's qualitative categories and throughput tiers, then the benchmarks of acceptance length."""
WHOLE_RUN = "all"
"""The column of a run that has no category."""


@dataclass(slots=True)
class Span:
    """Output tokens, and the first start and last content of each run that gave them, in ns of the wall clock."""

    tokens: int
    runs: list[tuple[int, int]]

    def rate(self) -> float | None:
        """Return tokens a second; None without a time at which all runs were under way."""
        starts, ends = zip(*self.runs, strict=True)
        return self.tokens / (max(ends) - min(starts)) * NS_PER_S if max(starts) < min(ends) else None


@dataclass(slots=True, frozen=True)
class Cell:
    """One figure. `requests` is how many stand behind it, None where the source does not say; `low` and `high` are its
    95 % interval over `prompts`, None where records do not tell them or they are too many to keep apart; `gauge` marks
    an average over time, which is not token-weighted; `at_most` the greatest figure that a server's counters allow,
    where they leave several."""

    value: float | None
    requests: int | None = None
    low: float | None = None
    high: float | None = None
    gauge: bool = False
    prompts: int | None = None
    at_most: bool = False

    @property
    def mark(self) -> str:
        """Return the sign before a figure that is not what others are; empty for those."""
        return "~" if self.gauge else "≤" if self.at_most else ""


class FigureCells:
    """One figure of the records of a run, or of several runs together, by column. It never changes.

    `parts` holds the records of each run, and the column of those that have no category.
    """

    def __init__(self, name: FigureName, parts: Sequence[tuple[str, Sequence[RequestRecord]]]) -> None:
        self._name = name
        self._parts = parts

    def __deepcopy__(self, memo: object) -> FigureCells:
        """Return itself, for records are many."""
        return self

    def together_with(self, other: FigureCells) -> FigureCells:
        """Return the same figure of both runs' records."""
        return FigureCells(self._name, [*self._parts, *other._parts])

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """The figure of each column; what is made of the run's duration has one column for each run."""
        found: dict[str, list[RequestRecord]] = {}
        for column, records in self._parts:
            for record in records:
                if record.phase is Phase.PROFILING:
                    own = None if self._name.is_timed else record.category
                    found.setdefault(own or column, []).append(record)
        return {column: self._cell(records) for column, records in found.items()}

    @cached_property
    def pooled(self) -> Cell | None:
        """The figure of all records together."""
        if len(self.cells) == 1:
            return next(iter(self.cells.values()))
        return self._cell([*chain.from_iterable(records for _, records in self._parts)])

    def _cell(self, records: Sequence[RequestRecord]) -> Cell:
        if self._name.is_timed and not overlap(records for _, records in self._parts):
            return Cell(None)
        found = Figures(records).find(self._name)
        metric = RECORD_BY_TAG.get(self._name.tag)
        requests = None if metric is None else sum(metric.value(record) is not None for record in measured(records))
        return Cell(found.value, requests, found.low, found.high, prompts=found.n or None)


@dataclass(slots=True)
class RunFigures:
    """What one run (or several of one model, pooled) has for a matrix, by column.

    `pools` holds sums, which add up; `values` bare figures, which do not: gauges, or those of a summary; `of_records`
    a figure that is not made of sums. Only sums of records have those by prompt that intervals need.
    """

    model: str
    names: list[str]
    source: ReportSource | None
    """None where the run has nothing for the metric."""
    pools: dict[str, CategoryTotals] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    of_records: FigureCells | None = None
    requests: Counter[str] = field(default_factory=Counter)
    gauge: bool = False
    at_most: bool = False
    succeeded: int | None = None
    unreadable: int = 0
    drafted_share: float | None = None
    """Verify steps / decode steps, a fraction; None where the source does not say."""

    @property
    def columns(self) -> set[str]:
        """Return the columns in which it has something."""
        own = {} if self.of_records is None else self.of_records.cells
        return self.pools.keys() | self.values.keys() | self.spans.keys() | own.keys()

    def cell(self, metric: ReportMetric | FigureName, column: str) -> Cell | None:
        """Return its figure in a column; None where it has none."""
        if self.of_records is not None:
            return self.of_records.cells.get(column)
        if column in self.pools:
            return _pool_cell(metric, self.pools[column])
        if column in self.spans:
            return Cell(self.spans[column].rate(), self.requests.get(column))
        if column in self.values:
            return Cell(self.values[column], self.requests.get(column), gauge=self.gauge, at_most=self.at_most)
        return None

    def pooled(self, metric: ReportMetric | FigureName) -> Cell | None:
        """Return its figure over all columns together; None where the sums for it are missing."""
        if self.of_records is not None:
            return self.of_records.pooled
        if self.pools:
            total = CategoryTotals()
            for pool in self.pools.values():
                total.merge(pool)
            return _pool_cell(metric, total)
        columns = self.columns
        return self.cell(metric, next(iter(columns))) if len(columns) == 1 else None

    def absorb(self, other: RunFigures) -> None:
        """Add another run's figures: sums add up, and gauges of the same column are averaged."""
        weight = len(self.names)
        self.names += other.names
        self.unreadable += other.unreadable
        if self.succeeded is not None:
            self.succeeded = None if other.succeeded is None else self.succeeded + other.succeeded
        for column, pool in other.pools.items():
            self.pools.setdefault(column, CategoryTotals()).merge(pool)
        for column, span in other.spans.items():
            mine = self.spans.setdefault(column, Span(0, []))
            mine.tokens += span.tokens
            mine.runs += span.runs
        if self.of_records is not None and other.of_records is not None:
            self.of_records = self.of_records.together_with(other.of_records)
        self.requests.update(other.requests)
        for column, value in other.values.items():
            before = self.values.get(column)
            self.values[column] = value if before is None else (before * weight + value) / (weight + 1)


def _pool_cell(metric: ReportMetric | FigureName, pool: CategoryTotals) -> Cell:
    estimate = pool.rate() if metric is ReportMetric.ACCEPT_RATE else pool.length()
    prompts = None if pool.prompts is None else estimate.n or None
    return Cell(estimate.value, pool.requests or None, estimate.low, estimate.high, prompts=prompts)


@dataclass(slots=True)
class Row:
    """One line of a matrix."""

    model: str
    runs: list[str]
    cells: dict[str, Cell]
    pooled: Cell | None

    @property
    def overall(self) -> float | None:
        """Return the unweighted mean of the cells: every category weighs the same."""
        values = [cell.value for cell in self.cells.values() if cell.value is not None]
        return fmean(values) if values else None


@dataclass(slots=True)
class Matrix:
    """Rows, and the runs that they were made of."""

    metric: ReportMetric | FigureName
    columns: list[str]
    rows: list[Row]
    runs: list[RunFigures]

    @property
    def is_timed(self) -> bool:
        """Whether its figure is made of the run's duration."""
        return self.metric.is_timed if isinstance(self.metric, FigureName) else self.metric is ReportMetric.THROUGHPUT

    @property
    def has_values(self) -> bool:
        """Whether any cell has a figure."""
        return any(cell.value is not None for row in self.rows for cell in row.cells.values())


def build_matrix(metric: ReportMetric | FigureName, runs: Iterable[RunFigures], *, pool: bool = False) -> Matrix:
    """Return the matrix of runs.

    Runs of one category each, of the same model, share a row as long as no two have the same category; any other run
    is a row of its own. With `pool`, all runs of a model are one row.
    """
    given = list(runs)
    groups: list[RunFigures] = []
    for run in given:
        if (group := next((group for group in groups if _joins(group, run, pool=pool)), None)) is None:
            groups.append(deepcopy(run))
        else:
            group.absorb(run)
    columns = order_columns({column for group in groups for column in group.columns})
    rows = []
    for group in groups:
        cells = {column: cell for column in columns if (cell := group.cell(metric, column)) is not None}
        rows.append(Row(group.model, group.names, cells, group.pooled(metric)))
    return Matrix(metric, columns, rows, given)


def _joins(group: RunFigures, run: RunFigures, *, pool: bool) -> bool:
    alike = all(getattr(group, name) == getattr(run, name) for name in ("model", "source", "gauge", "at_most"))
    if pool or not alike:
        return alike
    single = len(run.columns) == 1 and len(group.columns) == len(group.names)
    return single and WHOLE_RUN not in run.columns and not group.columns & run.columns


def order_columns(columns: Iterable[str]) -> list[str]:
    """Return columns in the conventional order, others behind them by name."""
    places = {name: place for place, name in enumerate(CONVENTIONAL)}
    return sorted(columns, key=lambda name: (places.get(name, len(places)), name))
