"""Compare runs that were written before."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import typer

from aiperf_spec.analysis.comparison.compare import compare as compare_runs
from aiperf_spec.analysis.comparison.course import Candidate
from aiperf_spec.analysis.comparison.course import course as compare_course
from aiperf_spec.analysis.comparison.mismatches import Run
from aiperf_spec.analysis.comparison.outputs import OutputComparison, compare_outputs, parted
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.write.analysis_json import comparison_json
from aiperf_spec.cli.compared_runs import note_cautions, read_side
from aiperf_spec.cli.compared_runs import sides as sides_of
from aiperf_spec.cli.course import course
from aiperf_spec.cli.gates import Gates
from aiperf_spec.cli.page import comparison_html, expect_page
from aiperf_spec.cli.terminal import show_document, stdout, translated_errors, write_file
from aiperf_spec.config.choices import TableFormat
from aiperf_spec.errors import ConfigError, ExitCode, SpecProfileError
from aiperf_spec.render.comparison_tables import compare_report
from aiperf_spec.render.outputs import outputs_report
from aiperf_spec.render.text import printable


def compare(
    runs: Sequence[Path],
    base: Sequence[Path],
    candidate: Sequence[Path],
    *,
    form: TableFormat,
    require: Sequence[str] | None,
    strict: bool,
    html: Path | None,
    outputs: bool,
    control: Sequence[Path],
    order_by: str | None = None,
) -> None:
    """Print each candidate against the base, then the gates; `base` in a gate is the base run.

    With `order_by`, candidates are a course: see `cli/course.py`.

    `base` and `candidate` are the folders of one side each; each of `runs` is a side of its own, the first one the base
    where `base` names none. With `outputs`, or with the folders of a `control`, the answers are compared too. `html` is
    a file to which the comparison is written as HTML too.
    """
    outputs = outputs or bool(control)
    with translated_errors():
        if html is not None:
            expect_page(html)
        paths = sides_of(runs, base, candidate)
        _expect_together(order_by, form, paths, control, outputs=outputs)
        folders = [[RunFolder(path, keep=True, with_answers=outputs) for path in each] for each in paths]
        gates = Gates(require or (), folders[0], strict=strict, outputs=outputs, several=len(paths) > 2)
        if order_by is not None:
            met = course(folders, order_by, form=form, gates=gates, html=html)
            raise typer.Exit(ExitCode.OK if met else ExitCode.GATE)
        sides = [read_side(each) for each in folders]
        for each in sides:
            note_cautions(each)
        comparisons = compare_runs(sides[0], sides[1:])
        answers = _answers(sides, folders, control) if outputs else []
        shares = [answers[i].shares if answers else None for i in range(len(sides) - 1)]
        figures = [gates.figures_of(*each) for each in zip(folders[1:], shares, strict=True)] if gates else []
        best = figures[_best(sides)] if gates.ask_for_best else None
        results = [gates.outcomes(each, best) for each in figures]
        if form is TableFormat.JSON:
            document = comparison_json(comparisons, results if gates else None, answers)
            show_document(document, is_json=True)
        else:
            stdout().print(compare_report(comparisons))
            for found in answers:
                stdout().print("")
                stdout().print(outputs_report(found))
            for run, judged in zip(sides[1:], results, strict=False):
                stdout().print("")
                gates.show(judged, stdout(), f"Gates, {printable(run.name, 60)}")
        if html is not None:
            write_file("--html", html, comparison_html(comparisons, sides, folders, results, answers, strict=strict))
    raise typer.Exit(ExitCode.OK if all(result.passed for judged in results for result in judged) else ExitCode.GATE)


def _answers(
    sides: Sequence[Run], folders: Sequence[Sequence[RunFolder]], control: Sequence[Path]
) -> list[OutputComparison]:
    again = [RunFolder(path, with_answers=True) for path in control]
    base, candidates = sides[0], sides[1:]
    looked_at = {id(record) for record in parted(base, candidates)}
    for folder in chain(*folders):
        folder.read_token_choices(looked_at)
    return compare_outputs(base, candidates, read_side(again) if again else None)


def _best(sides: Sequence[Run]) -> int:
    """Return the position of the best candidate among the candidates."""
    found = compare_course(sides[0], [Candidate(run, str(i)) for i, run in enumerate(sides[1:])])
    if found.best is None:
        raise SpecProfileError("no candidate can be compared with the base, so none is the best")
    return int(found.checkpoints[found.best].place)


def _expect_together(
    order_by: str | None, form: TableFormat, paths: Sequence[Sequence[Path]], control: Sequence[Path], *, outputs: bool
) -> None:
    if order_by is None and form is TableFormat.CSV:
        raise ConfigError("--format csv has a row for each candidate of a course", "add --order-by TAG, or take json")
    if order_by is not None and outputs:
        raise ConfigError(
            "--order-by compares acceptance lengths, and --outputs answers", "compare one after the other"
        )
    twice = {*map(Path.resolve, paths[0])} & {*map(Path.resolve, chain(*paths[1:]))}
    if outputs and twice:
        raise ConfigError(
            f"{str(min(twice))!r} is base and candidate in one, and a run's answers are always its own", "name two runs"
        )
    if {folder.resolve() for folder in control} & {folder.resolve() for each in paths for folder in each}:
        raise ConfigError("--control names a run that is compared", "make the base run once more, and name that")
