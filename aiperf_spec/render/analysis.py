"""The answers of one run, in compact tables."""

from collections.abc import Iterator, Mapping
from functools import partial

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.drift import Drift
from aiperf_spec.analysis.intervals import Estimate
from aiperf_spec.analysis.missing import Missing
from aiperf_spec.analysis.outliers import Outliers
from aiperf_spec.analysis.positions import PositionCurve
from aiperf_spec.analysis.report import Analysis, GroupAnalysis
from aiperf_spec.analysis.whatif import WhatIf
from aiperf_spec.models.decoding import some_undrafted
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.render.layout import Part, spaced, table_of, titled
from aiperf_spec.render.missing import MENDED_BY_CHAIN, explained, figure, interval, signed
from aiperf_spec.render.text import count, middle, number, plural, printable

_MODELLED_ROWS = 16
"""Draft lengths shown; files have all."""


def analysis_report(
    analysis: Analysis, *, by_category: bool = False, texts: Mapping[int, PromptAndAnswer] | None = None
) -> RenderableType:
    """Return the analysis of a run as tables; `texts` are prompt and answer of outliers by index, at raw level."""
    return spaced(analysis_parts(analysis, texts or {}, by_category=by_category))


def analysis_parts(analysis: Analysis, texts: Mapping[int, PromptAndAnswer], *, by_category: bool) -> Iterator[Part]:
    """Yield the tables of `analysis_report` one by one."""
    if not analysis.run.requests:
        return
    yield lambda: figures_table(analysis)
    yield lambda: curve_table(analysis.run.curve, "Position acceptance")
    yield lambda: what_if_table(analysis.run.what_if)
    if analysis.categories and analysis.run.what_if.best is not None:
        yield lambda: best_lengths_table(analysis)
    if by_category:
        for name, group in analysis.categories.items():
            if group.requests:
                yield partial(curve_table, group.curve, f"Position acceptance, {middle(name, 40)}", explains=False)
    yield lambda: drift_table(analysis.drift)
    if analysis.prompt_length.correlation.value is not None:
        yield lambda: Text(_prompt_length(analysis), style="dim")
    if analysis.outliers.requests:
        yield lambda: outliers_table(analysis.outliers, texts)


def figures_table(analysis: Analysis) -> RenderableType:
    """Return pooled figures with their intervals, and the speed-up taken apart where there is a baseline."""
    speed = analysis.speed_up
    figures: list[tuple[str, Estimate, float]] = [
        ("Acceptance length", analysis.run.length, 1),
        ("Draft accept. rate (%)", analysis.run.rate, 1),
        *(_undrafted_figures(analysis) if some_undrafted(analysis.drafted_share.value) else ()),
        ("Output from speculation (%)", analysis.coverage, 100),
        ("Time per decode step (ms)", analysis.step_time_ms, 1),
        ("ITL, pooled (ms)", analysis.itl_ms, 1),
    ]
    if speed.measured.value is not None:
        figures.append(("Speed-up, measured", speed.measured, 1))
    rows = (
        (label, figure(e, 2, factor), interval(e, 2, factor), count(e.n))
        for label, e, factor in figures
        if e.value is not None
    )
    few = all(estimate.reason is Missing.TOO_FEW for _, estimate, _ in figures if estimate.value is not None)
    lines = (
        ["No intervals: n too small."]
        if few
        else ["Intervals are over prompts (n): all turns and repeats of a prompt count as one."]
    )
    if some_undrafted(analysis.drafted_share.value):
        lines.append(_undrafted_note(analysis))
    if speed.tokens_per_step is not None and speed.per_step is not None and speed.kept is not None:
        lines.append(
            f"Speed-up = {number(speed.tokens_per_step)} (tokens per decode step) x {number(speed.per_step)} (baseline "
            f"ITL / time per decode step) x {number(speed.kept)} (share of those tokens that were kept), against a "
            f"baseline ITL of {number(speed.baseline_itl_ms)} ms."
        )
    elif speed.reason is not None and speed.baseline_itl_ms is not None:
        what = "No speed-up" if speed.measured.value is None else "The speed-up is not split into its parts"
        lines.append(f"{what}: {explained(speed.reason)}.")
    table = table_of(("<Figure", "value", "95 % interval", "n"), rows)
    return titled("Analysis", table.without_hollow(), lines)


def _undrafted_figures(analysis: Analysis) -> list[tuple[str, Estimate, float]]:
    return [
        ("Tokens per decode step", analysis.tokens_per_decode_step, 1),
        ("Decode steps with a draft (%)", analysis.drafted_share, 100),
    ]


def _undrafted_note(analysis: Analysis) -> str:
    least, most = analysis.undrafted_steps, analysis.undrafted_at_most
    if most > least:
        count_of = f"{count(least)} to {plural(most, 'decode step')}"
        hidden = "; a last step that was cut at a limit or a stop may hide some"
        used = " Tokens per decode step and the rows below it use the lower number; their intervals allow for the rest."
    else:
        count_of, hidden, used = plural(most, "decode step"), "", ""
    return (
        f"{count_of} ran without a draft and gave one token each{hidden}. Length and rate exclude them, as the engine "
        f"does.{used}"
    )


_POSITION_NOTE = (
    "Unconditional: of all verify steps. Conditional: of the steps that reached the position, which proposed it and "
    "accepted every draft token before it."
)


def curve_table(curve: PositionCurve, title: str, *, explains: bool = True) -> RenderableType:
    """Return each position's unconditional and conditional acceptance; a line says why the latter is missing.

    `explains` adds what the two are; of several tables the first is enough.
    """
    known = curve.drafting.at_risk_known
    columns, rows = ["\nposition", "steps\naccepted", "uncondi-\ntional %", "95 %\ninterval"], []
    if known:
        columns += ["steps\nreached", "condi-\ntional %", "95 %\ninterval"]
    for each in curve.positions[:_MODELLED_ROWS]:
        row = [str(each.position), count(each.accepted), figure(each.survival, 1, 100), interval(each.survival, 1, 100)]
        if known:
            risk = count(each.at_risk or 0)
            row += [risk, figure(each.conditional, 1, 100), interval(each.conditional, 1, 100)]
        rows.append(row)
    notes = [_POSITION_NOTE if known else "Unconditional: of all verify steps."] if explains else []
    if not known and curve.drafting.reason is not None:
        notes.append(f"The conditional acceptance is not given: {explained(curve.drafting.reason)}.")
    if curve.drafting.assumed:
        notes.append("This assumes that every step proposed a chain of the same length (--assume-chain).")
    if len(curve.positions) > _MODELLED_ROWS:
        notes.append(f"{_MODELLED_ROWS} of {len(curve.positions)} positions shown; analysis.json has all.")
    return titled(title, table_of(columns, rows).without_hollow(), notes)


def what_if_table(modelled: WhatIf) -> RenderableType:
    """Return what shorter drafts would have given, marked as the estimate it is, or why it is not given."""
    title = "What a shorter draft would have given (estimate)"
    if modelled.reason is not None:
        remedy = "; add --assume-chain if you know that it drafts chains" if modelled.reason in MENDED_BY_CHAIN else ""
        return Text.assemble((f"{title}\n", "bold"), f"Not given: {explained(modelled.reason)}{remedy}.")
    full = modelled.drafting.full
    columns, rows = ["k'", "length", "95 % interval", *([] if full else ["as drafted"])], []
    if modelled.draft_cost is not None:
        columns += ["speed-up", "95 % interval"]
    for each in modelled.lengths[:_MODELLED_ROWS]:
        row = [str(each.k), figure(each.length), interval(each.length)]
        if not full:
            row.append(figure(each.as_drafted))
        if each.speedup is not None:
            row += [figure(each.speedup), interval(each.speedup)]
        rows.append(row)
    return titled(title, table_of(columns, rows).without_hollow(), _modelling_notes(modelled))


def _modelling_notes(modelled: WhatIf) -> list[str]:
    notes = ["Modelled from this run for a chain drafter, not measured."]
    if not modelled.drafting.full:
        notes.append(
            "Length assumes that every step proposes k' tokens; as drafted assumes that short drafts stay short."
        )
        notes.append("Rough: some drafts are shorter than k, and what they propose depends on where they begin.")
    elif modelled.rough:
        notes.append("Rough: from histograms, because the engine does not report single steps.")
    if modelled.rough:
        notes.append("The intervals are wider because of that.")
    if modelled.draft_cost is None:
        notes.append("--draft-cost C (draft time per token / target time per step) adds the speed-up and the best k'.")
    elif modelled.best is not None:
        notes.append(f"Best k' at a draft cost of {modelled.draft_cost:g}: {_best(modelled)}.")
    if len(modelled.lengths) > _MODELLED_ROWS:
        notes.append(f"{_MODELLED_ROWS} of {len(modelled.lengths)} lengths shown; analysis.json has all.")
    return notes


def _best(modelled: WhatIf) -> str:
    best = str(modelled.best) if modelled.best else "0, that is, no speculation"
    if not modelled.ties:
        return best
    return f"{best} (no difference shown from {', '.join(str(k) for k in modelled.ties)})"


def best_lengths_table(analysis: Analysis) -> RenderableType:
    """Return the best k' of each category at the given draft cost, an estimate."""
    columns = ("<Category", "n", "best k'", "speed-up", "95 %\ninterval", "no difference\nshown from")
    rows = (
        (Text(middle(name, 20)), count(group.length.n), *_best_cells(group))
        for name, group in analysis.categories.items()
    )
    title = f"Best k' per category at a draft cost of {analysis.run.what_if.draft_cost:g} (estimate)"
    return titled(title, table_of(columns, rows).without_hollow())


def _best_cells(group: GroupAnalysis) -> tuple[str, str, str, str]:
    modelled = group.what_if
    if modelled.best is None:
        return "–", "–", "–", "–"
    if modelled.best == 0:
        return "0", number(1.0), "–", _ties(group)
    speed = modelled.lengths[modelled.best - 1].speedup or Estimate(None)
    return str(modelled.best), figure(speed), interval(speed), _ties(group)


def _ties(group: GroupAnalysis) -> str:
    ties = group.what_if.ties
    if group.length.reason is Missing.TOO_FEW:
        return "n too small"
    if len(ties) > 2 and ties == tuple(range(ties[0], ties[-1] + 1)):
        return f"{ties[0]} to {ties[-1]}"
    return ", ".join(str(k) for k in ties[:4]) + (", ..." if len(ties) > 4 else "") if ties else "–"


def drift_table(drift: Drift) -> RenderableType:
    """Return length by tenth of the verify steps, and how the steps of one response depend on each other."""
    if drift.reason is not None:
        return Text.assemble(("Drift within responses\n", "bold"), f"Not given: {explained(drift.reason)}.")
    notes = []
    if (change := drift.change) is not None and change.value is not None:
        notes.append(f"Second half of the steps minus the first: {signed(change.value)} ({interval(change)}).")
    if (lag := drift.autocorrelation) is not None and lag.value is not None:
        notes.append(f"Autocorrelation of accepted tokens per step at lag 1: {number(lag.value)} ({interval(lag)}).")
    if drift.longest_rejection:
        steps = plural(drift.longest_rejection, "step")
        notes.append(f"Longest run of rejections: {steps} in a row (request {drift.longest_in}).")
    if len(drift.buckets) > 1:
        parts = (f"{count(bucket.start)}+: {figure(bucket.length)}" for bucket in drift.buckets)
        notes.append(f"Length by output tokens so far: {', '.join(parts)}.")
    if drift.buckets_reason is not None:
        notes.append(f"Length by output tokens so far is not given: {explained(drift.buckets_reason)}.")
    if not drift.tenths:
        return Renderables(Text("Drift within responses", style="bold"), Text(" ".join(notes), style="dim"))
    tenths = [str(part) for part in range(1, len(drift.tenths) + 1)]
    table = table_of(tenths, [map(figure, drift.tenths)])
    return titled(f"Length by tenth of the verify steps ({plural(drift.responses, 'response')})", table, notes)


def _prompt_length(analysis: Analysis) -> str:
    found = analysis.prompt_length
    correlation = found.correlation
    quarters = ", ".join(
        f"{count(quarter.shortest)} to {count(quarter.longest)}: {figure(quarter.length)}" for quarter in found.quarters
    )
    return (
        f"Acceptance against prompt length: rank correlation {number(correlation.value)} ({interval(correlation)}, "
        f"n {count(correlation.n)}). Length by prompt tokens: {quarters}."
    )


def outliers_table(outliers: Outliers, texts: Mapping[int, PromptAndAnswer]) -> RenderableType:
    """Return the requests with the smallest acceptance length, and their texts where those were kept."""
    columns = ("#", "<prompt", "<category", "length", "steps", "prompt\ntokens")
    table = table_of(columns, title="Worst requests by acceptance length")
    for each in outliers.requests:
        turn = f" turn {each.turn_index}" if each.turn_index else ""
        tokens = "–" if each.input_tokens is None else count(each.input_tokens)
        name = Text(middle(each.prompt_id, 32) + turn)
        category = Text(middle(each.category or "–", 12))
        table.add_row(str(each.index), name, category, number(each.length), count(each.steps), tokens)
    lines = [f"Of {plural(outliers.considered, 'request')} with at least 10 verify steps."]
    if outliers.left_out:
        lines.append(f"{plural(outliers.left_out, 'request')} with fewer steps left out.")
    parts: list[RenderableType] = [table, Text(" ".join(lines), style="dim")]
    for each in outliers.requests:
        if each.index in texts:
            said = texts[each.index]
            parts.append(Text(f"{each.index} asked: {printable(said.prompt, 160)}"))
            parts.append(Text(f"{' ' * len(str(each.index))} got:   {printable(said.answer, 160)}"))
    return Renderables(*parts)
