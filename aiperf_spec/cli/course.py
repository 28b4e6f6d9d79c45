"""Compare a course of candidates, such as the checkpoints of a drafter, with a base and with the best of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from aiperf_spec.analysis.comparison.course import Candidate, Course, LeftOut, Obstacle
from aiperf_spec.analysis.comparison.course import course as compare_course
from aiperf_spec.analysis.gates import GateResult
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import started_at, tags_of
from aiperf_spec.artifacts.write.course_files import course_csv, course_json
from aiperf_spec.cli.compared_runs import note_cautions, read_side
from aiperf_spec.cli.gates import Gates
from aiperf_spec.cli.terminal import note, say_next, show_document, stderr, stdout, write_file
from aiperf_spec.config.choices import TableFormat
from aiperf_spec.config.tags import DATE
from aiperf_spec.errors import ConfigError, SpecProfileError
from aiperf_spec.render.course import course_report, name_of
from aiperf_spec.render.text import plural, printable


def course(
    folders: Sequence[Sequence[RunFolder]], order_by: str, *, form: TableFormat, gates: Gates, html: Path | None
) -> bool:
    """Print the course of sides, of which the base is the first, and say whether all candidates meet the gates.

    A candidate that cannot be read or compared is listed with the reason, and meets no gate.
    """
    base = read_side(folders[0])
    note_cautions(base)
    candidates, left_out = _candidates(folders[1:], order_by)
    found = compare_course(base, candidates, order_by, left_out)
    by_name = {", ".join(str(folder.path) for folder in side): side for side in folders[1:]}
    results = _judged(found, gates, by_name) if gates else {}
    if form is TableFormat.TABLE:
        stdout().print(course_report(found))
    else:
        document = course_json(found, results if gates else None) if form is TableFormat.JSON else course_csv(found)
        show_document(document, is_json=form is TableFormat.JSON)
    for each in found.checkpoints if gates and form is not TableFormat.JSON else ():
        # A CSV has no place for gates.
        console = stdout() if form is TableFormat.TABLE else stderr()
        console.print("")
        gates.show(results[each.name], console, f"Gates, {printable(name_of(found, each), 60)}")
    if gates and found.left_out:
        note(f"{plural(len(found.left_out), 'candidate')} left out: a run that cannot be compared meets no gate")
    if html is not None:
        from aiperf_spec.render.html.course_page import course_page

        write_file("--html", html, course_page(found, results, strict=gates.strict))
    if found.best is None:
        raise SpecProfileError("no candidate can be compared with the base", "see what is left out, and why")
    if form is TableFormat.TABLE and max(map(len, folders)) == 1:
        say_next("compare", found.base, found.checkpoints[found.best].name)
    met = all(result.passed for judged in results.values() for result in judged)
    return met and not (gates and found.left_out)


def _judged(found: Course, gates: Gates, folders: Mapping[str, Sequence[RunFolder]]) -> dict[str, list[GateResult]]:
    figures = {each.name: gates.figures_of(folders[each.name]) for each in found.checkpoints}
    best = None if found.best is None else figures[found.checkpoints[found.best].name]
    return {name: gates.outcomes(each, best) for name, each in figures.items()}


def _candidates(sides: Sequence[Sequence[RunFolder]], order_by: str) -> tuple[list[Candidate], list[LeftOut]]:
    candidates, left_out = [], []
    tagged: set[str] = set()
    for folders in sides:
        try:
            run = read_side(folders)
        except SpecProfileError as error:
            name = ", ".join(str(folder.path) for folder in folders)
            left_out.append(LeftOut(name, Obstacle.UNREADABLE, {"message": error.message}))
            continue
        tags = [tags_of(folder) for folder in folders]
        tagged |= {name for each in tags for name in each}
        if (place := _date(folders) if order_by == DATE else _common(tags, order_by)) is not None:
            note_cautions(run)
            candidates.append(Candidate(run, place))
        elif order_by == DATE:
            left_out.append(LeftOut(run.name, Obstacle.NO_DATE))
        else:
            left_out.append(LeftOut(run.name, Obstacle.NO_PLACE, {"tag": order_by}))
    if not candidates and any(each.reason is Obstacle.NO_PLACE for each in left_out):
        known = f"their tags are {', '.join(sorted(tagged))}" if tagged else "make runs with --tag NAME=VALUE"
        raise ConfigError(f"--order-by {order_by!r}: no candidate has this tag", f"{known}; date is always known")
    return candidates, left_out


def _common(tags: Sequence[dict[str, str]], name: str) -> str | None:
    """Return the value of a tag where all runs of a side have the same."""
    values = {each.get(name) for each in tags}
    return values.pop() if len(values) == 1 else None


def _date(folders: Sequence[RunFolder]) -> str | None:
    starts = [when for folder in folders if (when := started_at(folder)) is not None]
    return f"{min(starts):%Y-%m-%d %H:%M:%S}" if starts else None
