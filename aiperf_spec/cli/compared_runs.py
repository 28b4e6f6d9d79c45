"""The runs that a comparison is of: which folders make a side, and what is read of them."""

from collections.abc import Sequence
from pathlib import Path

from aiperf_spec.analysis.cautions import cautions
from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.comparison.mismatches import Run, side
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.artifacts.read.run import run_settings
from aiperf_spec.cli.terminal import note
from aiperf_spec.errors import ConfigError, SpecProfileError
from aiperf_spec.render.notices import notice_text
from aiperf_spec.render.text import plural, printable


def sides(runs: Sequence[Path], base: Sequence[Path], candidate: Sequence[Path]) -> list[list[Path]]:
    """Return the folders of each side, the base first; raise `ConfigError` where there are not two sides."""
    if candidate and not base:
        raise ConfigError("--candidate names the runs of one side, and --base none of the other", "add --base DIR")
    found = [[*base]] if base else []
    found += [[folder] for folder in runs] + ([[*candidate]] if candidate else [])
    if len(found) < 2:
        raise ConfigError(
            "there is nothing to compare with", "write compare BASE CANDIDATE, or --base DIR and --candidate DIR"
        )
    for folders in found:
        if len({folder.resolve() for folder in folders}) < len(folders):
            raise ConfigError("one folder is named twice on one side", "a run says nothing about itself a second time")
    return found


def read_side(folders: Sequence[RunFolder]) -> Run:
    """Return the runs of a side as one; raise `SpecProfileError` naming a folder that holds nothing to compare."""
    return side([_read(folder) for folder in folders])


def note_cautions(run: Run) -> None:
    """Say on stderr what misleads about a run by itself."""
    for notice in cautions(run.records):
        note(f"{printable(run.name, 200)}: {notice_text(notice)}")


def _read(folder: RunFolder) -> Run:
    loaded, name = folder.records(), str(folder.path)
    if not measured(loaded.records):
        raise SpecProfileError(f"{name!r} holds no successful request, so there is nothing to compare")
    if loaded.unreadable:
        lines = plural(len(loaded.unreadable), "unreadable line")
        note(f"{printable(name, 200)}: {lines} left out")
    return Run(name, loaded.records, run_settings(folder.described))
