"""Whether a candidate gave the base's answers: a sentence, the categories, and where answers part."""

from collections.abc import Iterator, Mapping

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.text import Text

from aiperf_spec.analysis.comparison.near_ties import NEAR_TIE_NATS, Place, Untold
from aiperf_spec.analysis.comparison.outputs import (
    Control,
    Identical,
    NearTies,
    OutputComparison,
    OutputVerdict,
    Parting,
)
from aiperf_spec.render.layout import spaced, table_of, titled
from aiperf_spec.render.missing import interval
from aiperf_spec.render.text import count, middle, number, plural, printable, spelled

_SHOWN = 8
"""Pairs of answers whose parting is shown; JSON has all."""
_NEEDED = {
    Untold.NO_EVENTS: "--export-level raw and log-probabilities",
    Untold.NO_LOGPROBS: "log-probabilities",
}
_ASKED_BY = "--extra-inputs logprobs:true,top_logprobs:5 for chat, logprobs:5 for completions"
_MEANT = {
    OutputVerdict.IDENTICAL: ": lossless on these prompts",
    OutputVerdict.NOT_LOSSLESS: ": not lossless",
    OutputVerdict.NONE_SHOWN: ": no difference from the control is shown",
    OutputVerdict.OTHER_MODEL: ": not judged, for the runs name different models",
}


def outputs_report(found: OutputComparison) -> RenderableType:
    """Return what a candidate's answers are beside the base's."""
    parts = [Text(f"Answers, {printable(found.candidate, 400)}", style="bold"), *outputs_tables(found)]
    return Renderables(spaced(parts), Text("\n".join(outputs_sentences(found)), style="bold"))


def outputs_tables(found: OutputComparison) -> list[RenderableType]:
    """Return identical answers by category, and where others part."""
    tables = [_categories(found.categories)] if found.categories else []
    return [*tables, *([_partings(found)] if found.partings else [])]


def outputs_sentences(found: OutputComparison) -> Iterator[str]:
    """Yield how many answers are identical and what that means, then what was left out."""
    share = found.identical.share
    over = f"95 % interval {interval(share)} over {plural(share.n, 'prompt')}"
    said = f"Answers: identical {_of(found.identical)} ({number(share.value)}; {over})"
    control = found.control
    if control is not None:
        said += f"; control {_of(control.identical)}"
    yield f"{said}{_MEANT.get(found.verdict, '')}."
    if control is not None and found.verdict is not OutputVerdict.IDENTICAL:
        yield _test(control)
    if found.verdict is OutputVerdict.NO_CONTROL:
        yield (
            "Batch effects alone can change greedy answers. To tell them from what the candidate does, make the "
            "base run once more and add --control DIR."
        )
    yield from _near_ties(found.near_ties)
    if found.sampled:
        yield (
            "The answers were sampled with a seed. Speculation may draw other random numbers, which is not a fault: "
            "compare at --temperature 0."
        )
    if found.later_turns:
        yield f"Left out: {plural(found.later_turns, 'later turn')} of conversations whose answers had parted before."
    if found.unknown:
        yield f"Left out: {plural(found.unknown, 'request')} without one answer of its own."


def _near_ties(found: NearTies) -> Iterator[str]:
    unknown = sum(found.unknown.values())
    if not found.near_ties + found.elsewhere and not set(found.unknown) - {*_NEEDED, Untold.SAMPLED}:
        return
    said = f"Parted at a near-tie: {count(found.near_ties)} of {count(found.near_ties + found.elsewhere + unknown)}"
    said += f"; elsewhere: {count(found.elsewhere)}"
    if unknown:
        said += f"; not known: {count(unknown)} ({'; '.join(f'{why}: {count(n)}' for why, n in found.unknown.items())})"
    yield f"{said}. At a near-tie, the base's log-probabilities of both tokens are within {NEAR_TIE_NATS} nat."


def _of(identical: Identical) -> str:
    return f"{count(identical.same)} of {count(identical.pairs)}"


def _test(control: Control) -> str:
    p = "p < 0.001" if control.p < 0.001 else f"p = {control.p:.3f}"
    fewer, more = plural(control.fewer, "prompt"), count(control.more)
    return f"{fewer} had fewer identical answers than in the control, {more} had more (sign test, {p})."


def _categories(categories: Mapping[str, Identical]) -> RenderableType:
    table = table_of(("<Category", "identical", "pairs", "share", "95 % interval"))
    for name, each in categories.items():
        figures = count(each.same), count(each.pairs), number(each.share.value), interval(each.share)
        table.add_row(Text(middle(name, 30)), *figures)
    return titled("Identical answers by category", table)


def _partings(found: OutputComparison) -> RenderableType:
    partings, shared = found.partings, found.median_shared
    lines = [Text(f"{plural(len(partings), 'pair')} of answers part", style="bold")]
    if shared is None:
        lines.append(Text("Where they part is not known: repeat both runs with --keep-outputs.", style="dim"))
    else:
        lines[0].append(f", after {number(shared, 0)} shared characters (median)")
    if needed := [what for why, what in _NEEDED.items() if why in found.near_ties.unknown]:
        hint = f"To tell near-ties from real differences, make both runs with {needed[0]} ({_ASKED_BY})."
        lines.append(Text(hint, style="dim"))
    for parting in sorted(partings, key=_is_near_tie)[:_SHOWN]:
        lines += _lines(parting)
    if len(partings) > _SHOWN:
        lines.append(Text(f"and {count(len(partings) - _SHOWN)} more; --format json has all", style="dim"))
    return Text("\n").join(lines)


def _is_near_tie(parting: Parting) -> bool:
    return parting.place is not None and parting.place.near_tie is True


def _lines(parting: Parting) -> Iterator[Text]:
    turn = f" turn {parting.turn}" if parting.turn else ""
    place = "" if parting.shared is None else f", after {plural(parting.shared, 'character')}"
    yield Text(f"{middle(parting.prompt_id, 40)}{turn}{place}{_gap(parting.place)}")
    for side, text in (("base       ", parting.base), ("candidate  ", parting.candidate)):
        if text is not None:
            yield Text(f"  {side}{_continuation(text)}")


def _gap(place: Place | None) -> str:
    if place is None or place.gap is None:
        return ""
    return f", a near-tie ({number(place.gap)} nat)" if place.near_tie else f", {number(place.gap)} nats apart"


def _continuation(text: str) -> str:
    # White space may be all that differs, so it is kept.
    return spelled(text).replace("\n", "\\n") if text else "(ends)"
