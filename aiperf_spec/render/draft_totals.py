"""What requests without verify steps reported, in a table of its own."""

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.server_acceptance import exact_length
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.run import RunResult
from aiperf_spec.render.layout import pairs
from aiperf_spec.render.text import count, number, plural

_COUNTED = "by the verify steps that the server counted for the same drafts"
_BOUNDS = "the bounds that the totals and the token counts give"


def length_parts(summary: Summary, exact: float | None) -> tuple[str, str]:
    """Return the acceptance length of such requests, or between what it lies, and where that comes from."""
    values = summary.run_values
    if exact is not None:
        return number(exact), _COUNTED
    least, greatest = (number(values.get(f"draft_totals_{end}_acceptance_length")) for end in ("least", "greatest"))
    return (least, "by the engine's count of steps") if least == greatest else (f"{least} to {greatest}", _BOUNDS)


def totals_table(result: RunResult, summary: Summary) -> RenderableType | None:
    """Return the rate of such requests, and the bounds of their length; None where there are none."""
    values = summary.run_values
    requests, left_out = (int(values.get(f"draft_totals_{name}requests", 0)) for name in ("", "left_out_"))
    if not requests and not left_out:
        return None
    title = Text.assemble(("Acceptance", "bold"), " of requests that reported no verify steps")
    grid = pairs()
    if requests:
        of = f"{count(int(values['draft_totals_accepted_draft_tokens']))} of "
        drafts = f"{of}{plural(int(values['draft_totals_draft_tokens']), 'draft token')} accepted"
        rate = f"{number(values.get('draft_totals_draft_acceptance_rate'))} %"
        grid.add_row("Draft acceptance rate", Text.assemble((rate, "bold"), f"  ({drafts})"))
        length, source = length_parts(summary, exact_length(result.reconciliation))
        grid.add_row("Acceptance length", Text.assemble((length, "bold"), f"  ({source})"))
    said = f"{plural(requests, 'request')} reported draft totals only; no other table includes them."
    if left_out:
        more = plural(left_out, "more request")
        said += f" {more} ran at the same time as others, and the engine counts over all of them."
    return Renderables(title, grid, Text(said, style="dim"))
