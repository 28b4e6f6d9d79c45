"""A course of candidates: a row for each, and what it comes to."""

from collections.abc import Iterator

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.comparison.compare import Verdict
from aiperf_spec.analysis.comparison.course import Against, Checkpoint, Course, LeftOut
from aiperf_spec.analysis.comparison.mismatches import MismatchKind
from aiperf_spec.config.tags import DATE
from aiperf_spec.render.comparison_sentences import change_text
from aiperf_spec.render.comparison_tables import mismatch_text, verdict_text
from aiperf_spec.render.layout import table_of, titled
from aiperf_spec.render.missing import explained, figure, interval, signed
from aiperf_spec.render.text import listed, middle, plural, printable
from aiperf_spec.render.words import worded

_DROPS = ("run", "p\nbase", "p\nbest", "n")


def course_report(found: Course) -> RenderableType:
    """Return the course as a table, what misleads, the runs that are left out, and its sentences."""
    lines = [Text.assemble(("misleads: ", "bold yellow"), text) for text in cautions(found)]
    parts: list[RenderableType] = [*lines, *([""] if lines else [])]
    parts += [course_table(found), ""] if found.checkpoints else []
    if found.left_out:
        parts += [Text("Left out", style="bold"), *map(Text, left_out(found)), ""]
    parts += [Text(method(found), style="dim"), ""] if found.checkpoints else []
    return Renderables(*parts, Text("\n".join(sentences(found)), style="bold"))


def course_table(found: Course) -> RenderableType:
    """Return a row for the base and each candidate, in their order: length, and difference from base and best."""
    columns = ("<run", "n", "length", "95 % interval", "to\nbase", "p\nbase", "<\nverdict", "to\nbest", "p\nbest")
    dated = found.ordered_by == DATE
    heading = () if dated else (f"<{middle(found.ordered_by, 20)}",)
    table = table_of((*heading, *columns, "<\nverdict "), drops=_DROPS[1:] if dated else _DROPS)
    base = found.base_length
    first = () if dated else ("base",)
    table.add_row(*first, Text(short(found.base)), str(base.n), figure(base), interval(base), *([""] * 6))
    for i, each in enumerate(found.checkpoints):
        best = ["", "", Text("best", style="bold green")] if i == found.best else _against(each.against_best)
        table.add_row(
            *(() if dated else (Text(_place(found, each)),)),
            Text(short(each.name)),
            str(each.length.n),
            figure(each.length),
            interval(each.length),
            *_against(each.against_base),
            *best,
        )
    return titled(f"Acceptance length, by {printable(found.ordered_by, 40)}", table)


def _against(found: Against | None) -> list[RenderableType]:
    if found is None:
        return ["", "", ""]
    return [signed(found.difference.estimate.value), p_text(found.adjusted_p), verdict_text(found.verdict)]


def p_text(p: float | None) -> str:
    """Return a p-value; an en dash for none."""
    return "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def cautions(found: Course) -> list[str]:
    """Return what misleads of each candidate; what is the same of all of them is said once."""
    texts: dict[str, list[str]] = {}
    for each in found.checkpoints:
        for mismatch in each.mismatches:
            texts.setdefault(mismatch_text(mismatch), []).append(name_of(found, each))
    every = len(found.checkpoints)
    return [text if len(names) == every else f"{listed(names)}: {text}" for text, names in texts.items()]


def left_out(found: Course) -> list[str]:
    """Return each run that is left out, and why."""
    return [f"{printable(each.name, 400)}: {reason(each)}." for each in found.left_out]


def reason(left: LeftOut) -> str:
    """Return why a run is left out, in a clause."""
    about = "mismatch" if isinstance(left.reason, MismatchKind) else "left out"
    return worded(about, left.reason, left.values)


def short(name: str, width: int = 24) -> str:
    """Return the name of a run's folder without those above it."""
    return middle(name.rstrip("/").rpartition("/")[2] or name, width)


def name_of(found: Course, each: Checkpoint, *, bare: bool = False) -> str:
    """Return what tells a candidate from the others: its tag, or its folder; `bare` is without the tag's name."""
    if found.ordered_by == DATE:
        return short(each.name)
    own = middle(each.place, 30) + ("" if _is_alone(found, each) else f" ({short(each.name)})")
    return own if bare else f"{printable(found.ordered_by, 40)} {own}"


def _place(found: Course, each: Checkpoint) -> str:
    return middle(each.place, 20) + ("" if _is_alone(found, each) else f"\n({short(each.name)})")


def _is_alone(found: Course, each: Checkpoint) -> bool:
    return sum(other.place == each.place for other in found.checkpoints) == 1


def sentences(found: Course) -> Iterator[str]:
    """Yield which candidate is the best and how surely, and how it stands to the base."""
    if found.best is None:
        yield "No candidate can be compared with the base."
        return
    best = found.checkpoints[found.best]
    yield _best(found, best)
    yield f"It {_to_base(best.against_base)}: {change_text(best.against_base.difference)}."


def _best(found: Course, best: Checkpoint) -> str:
    name, length = name_of(found, best), f"the greatest acceptance length, {figure(best.length)}"
    others = [each for each in found.checkpoints if each.against_best is not None]
    against = [each.against_best for each in others if each.against_best is not None]
    if not others:
        return f"{name} is the only candidate that can be compared: acceptance length {figure(best.length)}."
    if all(each.verdict is Verdict.NOT_JUDGED for each in against):
        why = next((each.difference.estimate.reason for each in against), None)
        return f"{name} has {length}, but nothing is judged{'' if why is None else f' ({explained(why)})'}."
    tied = [each for each in others if each.is_tied]
    if not tied:
        return f"{name} is the best: it has {length}, and all others are shown to be worse."
    if len(tied) == len(others):
        return f"No candidate is shown to be better than another. {name} has {length}."
    names = listed([name_of(found, each, bare=True) for each in tied])
    return f"{name} is the best shown: it has {length}; no difference from it is shown for {names}."


def _to_base(found: Against) -> str:
    if found.verdict is Verdict.NOT_JUDGED:
        return "is not judged against the base"
    shown = {Verdict.BETTER: "is better than the base", Verdict.WORSE: "is worse than the base"}
    return shown.get(found.verdict, "shows no difference from the base")


def method(found: Course) -> str:
    """Return in words how the candidates were compared."""
    runs = 1 + len(found.checkpoints)
    of = f"{found.prompts} of the base's {plural(found.base_prompts, 'prompt')}"
    correction = (
        f"Verdicts mean that p, corrected for {plural(found.tests, 'comparison')} (Holm; every pair of the {runs} "
        "runs that differ at all, because the best is chosen by the same data), is below 0.05"
        if found.tests
        else "No length could be judged, or none differs between any two runs"
    )
    return (
        f"Lengths are over the prompts that all {runs} runs answered: {of}. Intervals are 95 %, over prompts, one "
        f"figure at a time; differences are between paired prompts. {correction}. None shown means that the data show "
        "no difference; there may still be one."
    )
