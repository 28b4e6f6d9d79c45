"""Say what an exported figure is: where it was measured, and its interval."""

from collections.abc import Iterator

from aiperf_spec.adapters.acceptance_forms import AcceptanceForm, Holds
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.measured_acceptance import MeasuredAcceptance
from aiperf_spec.render.missing import figure, interval
from aiperf_spec.render.text import number, plural, printable
from aiperf_spec.version import __version__

_DECIMALS = 4
_NEARLY_ALL = 0.99
"""The share of decode steps with a draft from which on the others need no word."""


def export_notes(
    form: AcceptanceForm, found: MeasuredAcceptance, run: str, model: str, category: str | None
) -> list[str]:
    """Return lines about what was exported: each figure with its interval, and what is to be known of them."""
    of = "" if category is None else f", category {printable(category, 60)}"
    return [
        f"{form.taken_by}: {form.hint}",
        f"measured by spec-profile {__version__}: {printable(model, 120)}{of}, {printable(run, 200)}",
        *_figures(form, found),
        *_reservations(form, found),
    ]


def _figures(form: AcceptanceForm, found: MeasuredAcceptance) -> Iterator[str]:
    yield f"acceptance length {_with_interval(found.length)}, {plural(found.requests, 'request')}"
    if form.holds is Holds.LENGTH:
        return
    conditional = form.holds is Holds.CONDITIONAL
    what = "where all before it are" if conditional else "with all before it"
    for position, rate in enumerate(found.conditional if conditional else found.rates, start=1):
        yield f"draft token {position} accepted {what}: {_with_interval(rate)}"


def _with_interval(estimate: Estimate) -> str:
    prompts = f", {plural(estimate.n, 'prompt')}" if estimate.n else ""
    return f"{figure(estimate, _DECIMALS)} (95 %: {interval(estimate, _DECIMALS)}{prompts})"


def _reservations(form: AcceptanceForm, found: MeasuredAcceptance) -> Iterator[str]:
    share = found.drafted_share.value
    if share is not None and share < _NEARLY_ALL:
        yield f"{number(100 * share, 0)} % of decode steps had a draft: these figures are of those steps alone"
    if form.holds is not Holds.LENGTH and not found.full:
        yield "some drafts had fewer than k tokens: a rate is of the drafts that had a token at its position"
        whole = 1 + sum(rate.value or 0.0 for rate in found.rates)
        yield f"where every draft has k tokens, the rates make an acceptance length of {number(whole, _DECIMALS)}"
