"""A run's acceptance as OpenMetrics text (1.0), which Prometheus' push gateway takes as well as its own text format."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.report import Analysis, GroupAnalysis

_ALL = ""
"""The category of the whole run: a label without a value is one that is not there."""


def openmetrics(analysis: Analysis, *, model: str, engine: str, category: str | None = None) -> bytes:
    """Return gauges for the run and for each of its categories, or for the one that the analysis is of.

    Figures are in base units (shares from 0 to 1), each with the ends of its 95 % interval as `_low` and `_high`; what
    is not known is left out. `engine` is the adapter's name. No sample has a time stamp, which a push gateway refuses.
    """
    labels = [model, engine]
    groups = {category or _ALL: analysis.run} | ({} if category else analysis.categories)
    registry = CollectorRegistry()
    registry.register(_Families(labels, groups, analysis, category or _ALL))
    return bytes(generate_latest(registry))  # type: ignore[no-untyped-call]


class _Families(Collector):
    def __init__(self, labels: list[str], groups: dict[str, GroupAnalysis], analysis: Analysis, whole: str) -> None:
        self._labels = labels
        self._groups = groups
        self._analysis = analysis
        self._whole = whole

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each metric once."""
        groups, analysis = self._groups, self._analysis
        of_all = {self._whole: analysis}
        yield self._counts("requests", "Successful requests with a verify step", groups)
        yield from self._figures(
            "acceptance_length",
            "Average number of tokens from a verify step, the bonus token among them",
            {name: group.length for name, group in groups.items()},
        )
        yield from self._figures(
            "draft_acceptance_ratio",
            "Accepted draft tokens / proposed draft tokens",
            {name: group.rate.scaled(0.01) for name, group in groups.items()},
        )
        yield from self._figures(
            "drafted_steps_ratio",
            "Verify steps / decode steps",
            {name: each.drafted_share for name, each in of_all.items()},
        )
        yield from self._figures(
            "tokens_per_decode_step",
            "Tokens / decode steps, those without a draft among them",
            {name: each.tokens_per_decode_step for name, each in of_all.items()},
        )
        for name, what in (
            ("position_acceptance_ratio", "Steps that accepted at least as many draft tokens / steps"),
            ("position_conditional_acceptance_ratio", "The same, of the steps that accepted one fewer and had a token"),
        ):
            found = {
                (category, str(each.position)): each.survival if name.startswith("position_a") else each.conditional
                for category, group in groups.items()
                for each in group.curve.positions
            }
            yield from self._figures(name, what, found)

    def _counts(self, name: str, what: str, groups: dict[str, GroupAnalysis]) -> GaugeMetricFamily:
        family = self._family(name, what)
        for category, group in groups.items():
            family.add_metric([*self._labels, category], group.requests)
        return family

    def _figures(
        self, name: str, what: str, found: dict[str, Estimate] | dict[tuple[str, str], Estimate]
    ) -> Iterator[GaugeMetricFamily]:
        ends = (("", what), ("_low", f"{what}: the lower end of its 95 % interval"))
        for suffix, text in (*ends, ("_high", f"{what}: the upper end of its 95 % interval")):
            positions = any(isinstance(key, tuple) for key in found)
            family = self._family(name + suffix, text, *(["position"] if positions else []))
            for key, figure in found.items():
                value = {"": figure.value, "_low": figure.low, "_high": figure.high}[suffix]
                if value is not None:
                    family.add_metric([*self._labels, *(key if isinstance(key, tuple) else (key,))], value)
            if family.samples:
                yield family
        prompts = self._family(f"{name}_prompts", f"{what}: the number of prompts behind it")
        for key, figure in found.items():
            if not isinstance(key, tuple) and figure.value is not None:
                prompts.add_metric([*self._labels, key], figure.n)
        if prompts.samples:
            yield prompts

    def _family(self, name: str, what: str, *more: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"spec_profile_{name}", what, labels=["model", "engine", "category", *more])
