"""The charts that pages of several runs have in common: a series a run."""

from collections.abc import Mapping, Sequence

from aiperf_spec.analysis.matrix import Matrix
from aiperf_spec.analysis.positions import PositionCurve
from aiperf_spec.models.run import RequestRecord
from aiperf_spec.render.html import charts, time_charts
from aiperf_spec.render.html.category_forest import category_forest
from aiperf_spec.render.html.page import Group
from aiperf_spec.render.html.time_charts import Times
from aiperf_spec.render.matrix import matrix_report


def positions_of(name: str, runs: Sequence[tuple[str, Mapping[int, int], PositionCurve | None]]) -> Group:
    """Return accepted drafts a step and acceptance by position, the runs side by side; chart ids begin with `name`."""
    curves = [(run, charts.NONE if curve is None else curve) for run, _, curve in runs]
    drawn = [charts.histograms(f"{name}h", runs), *charts.positions(f"{name}p", curves, side_by_side=True)]
    return Group(
        charts=drawn,
        legend=charts.names_of([run for run, *_ in runs]),
        note="Positions that no draft reached are left out. Lines are 95 % intervals.",
    )


def categories_of(matrix: Matrix, table: object = None, records: Sequence[RequestRecord] = ()) -> Group:
    """Return acceptance by category with its `table`, the matrix where none is given; see `category_forest`."""
    table = matrix_report(matrix, intervals=True, width=None) if table is None else table
    return Group(forests=[category_forest(matrix, records)], folded=[("Table: acceptance by category", [table])])


def latencies_of(name: str, runs: Sequence[tuple[str, Mapping[str, Times]]]) -> Group:
    """Return the distributions of the runs' latencies."""
    return Group(
        charts=time_charts.distributions(f"{name}l", [(run, dict(times)) for run, times in runs]),
        legend=charts.names_of([run for run, _ in runs]),
        note="Marks are p50, p90 and p99.",
    )
