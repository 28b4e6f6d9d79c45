"""Compare runs that were written before."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import typer

from aiperf_spec.analysis.cautions import cautions
from aiperf_spec.analysis.comparison.compare import compare as compare_runs
from aiperf_spec.analysis.comparison.mismatches import Run, side
from aiperf_spec.analysis.comparison.outputs import OutputComparison, compare_outputs, parted
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import run_settings
from aiperf_spec.artifacts.write.analysis_json import comparison_json
from aiperf_spec.cli.gates import Gates
from aiperf_spec.cli.page import comparison_html, expect_page
from aiperf_spec.cli.terminal import note, show_document, stdout, translated_errors, write_file
from aiperf_spec.config.choices import TableFormat
from aiperf_spec.errors import ConfigError, ExitCode, SpecProfileError
from aiperf_spec.models.run import Phase
from aiperf_spec.render.comparison_tables import compare_report
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.outputs import outputs_report
from aiperf_spec.render.text import plural, printable


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
) -> None:
    """Print each candidate against the base, then the gates; `base` in a gate is the base run.

    `base` and `candidate` are the folders of one side each; each of `runs` is a side of its own, the first one the base
    where `base` names none. With `outputs`, or with the folders of a `control`, the answers are compared too. `html` is
    a file to which the comparison is written as HTML too.
    """
    outputs = outputs or bool(control)
    with translated_errors():
        if html is not None:
            expect_page(html)
        paths = _sides(runs, base, candidate, control)
        folders = [[RunFolder(path, keep=True, with_answers=outputs) for path in each] for each in paths]
        gates = Gates(require or (), folders[0], strict=strict, outputs=outputs)
        sides = [side([_load(folder) for folder in each]) for each in folders]
        for each in sides:
            for notice in cautions(each.records):
                note(f"{printable(each.name, 200)}: {notice_text(notice)}")
        comparisons = compare_runs(sides[0], sides[1:])
        answers = _answers(sides, folders, control) if outputs else []
        shares = [answers[i].shares if answers else None for i in range(len(sides) - 1)]
        candidates = zip(folders[1:], shares, strict=True)
        results = [gates.outcomes(gates.figures_of(*each)) for each in candidates] if gates else []
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
    return compare_outputs(base, candidates, side([_load(folder) for folder in again]) if again else None)


def _sides(
    runs: Sequence[Path], base: Sequence[Path], candidate: Sequence[Path], control: Sequence[Path]
) -> list[list[Path]]:
    if candidate and not base:
        raise ConfigError("--candidate names the runs of one side, and --base none of the other", "add --base DIR")
    sides = [[*base]] if base else []
    sides += [[folder] for folder in runs] + ([[*candidate]] if candidate else [])
    if len(sides) < 2:
        raise ConfigError(
            "there is nothing to compare with", "write compare BASE CANDIDATE, or --base DIR and --candidate DIR"
        )
    for folders in sides:
        if len({folder.resolve() for folder in folders}) < len(folders):
            raise ConfigError("one folder is named twice on one side", "a run says nothing about itself a second time")
    if {folder.resolve() for folder in control} & {folder.resolve() for each in sides for folder in each}:
        raise ConfigError("--control names a run that is compared", "make the base run once more, and name that")
    return sides


def _load(folder: RunFolder) -> Run:
    loaded, name = folder.records(), str(folder.path)
    if not any(record.succeeded and record.phase is Phase.PROFILING for record in loaded.records):
        raise SpecProfileError(f"{name!r} holds no successful request, so there is nothing to compare")
    if loaded.unreadable:
        lines = plural(len(loaded.unreadable), "unreadable line")
        note(f"{printable(name, 200)}: {lines} left out")
    return Run(name, loaded.records, run_settings(folder.described))
