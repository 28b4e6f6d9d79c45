"""Write a sweep's folder: its plan, and a line for each cell as it ends; the cells' own folders are runs'."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.sweep_folder import read_cell_ends, read_plan
from aiperf_spec.artifacts.write.whole_file import not_written, write_whole
from aiperf_spec.errors import ArtifactError
from aiperf_spec.models.sweep import Cell, CellEnd


class SweepFolder:
    """A folder that a sweep is written to, or goes on in.

    `ends` says how each cell ended that did. A cell is done where its line says so: the line is written after all files
    of its folder are, so that a killed sweep never takes half a cell for a whole one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ends: dict[str, CellEnd] = {}

    def begin(self, plan: dict[str, Any], *, resume: bool) -> None:
        """Make the folder, or go on in one whose plan is the same; raise `ArtifactError` where neither can be."""
        earlier = read_plan(self.path)
        if earlier is not None and not resume:
            raise ArtifactError(
                f"--artifact-dir {str(self.path)!r} already holds a sweep",
                "add --resume to go on with it, or choose another folder",
            )
        if earlier is None and resume:
            raise ArtifactError(
                f"--resume: there is no sweep in {str(self.path)!r} ({names.SWEEP_PLAN})",
                "name its folder with --artifact-dir",
            )
        if earlier is not None:
            _expect_same(earlier, plan)
            self.ends = read_cell_ends(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if taken := [name for name in names.ALL if os.path.lexists(self.path / name)]:
                raise ArtifactError(
                    f"--artifact-dir {str(self.path)!r} already holds a run ({taken[0]})", "choose another folder"
                )
            journal = self.path / names.SWEEP_CELLS
            if journal.exists() and not journal.read_bytes().endswith(b"\n"):
                with journal.open("ab") as file:
                    file.write(b"\n")  # a kill has cut the last line
            write_whole(self.path / names.SWEEP_PLAN, orjson.dumps(plan, option=orjson.OPT_INDENT_2) + b"\n")
        except OSError as error:
            raise not_written(self.path, error) from None

    def is_done(self, cell: Cell) -> bool:
        """Say whether the cell's folder is whole."""
        end = self.ends.get(cell.name)
        return end is not None and end.reason is None and (self.path / cell.name / names.SUMMARY_JSON).exists()

    def note(self, cell: Cell, end: CellEnd) -> None:
        """Write how a cell ended; raise `ArtifactError` where that cannot be written."""
        self.ends[cell.name] = end
        line = orjson.dumps({"cell": cell.name, "seconds": round(end.seconds, 3), "reason": end.reason}) + b"\n"
        try:
            with (self.path / names.SWEEP_CELLS).open("ab") as file:
                file.write(line)
        except OSError as error:
            raise not_written(self.path, error) from None

    def kept(self, cells: Sequence[Cell]) -> str:
        """Say in a clause how much of the sweep is on disk, and where."""
        done = sum(self.is_done(cell) for cell in cells)
        return f"{done} of {len(cells)} cells are kept in {self.path}"


def _expect_same(earlier: dict[str, Any], plan: dict[str, Any]) -> None:
    """Raise `ArtifactError` unless both plans send the same; levels and repeats may differ."""
    remedy = "give the same options as for the sweep that is to go on, or choose another folder"
    before, now = (set(map(str, each.get("options") or ())) for each in (earlier, plan))
    if before != now:
        with_, without = (", ".join(sorted(each)) or "nothing" for each in (before - now, now - before))
        raise ArtifactError(f"--resume: the sweep was measured with {with_} in place of {without}", remedy)
    if earlier.get("prompts") != plan.get("prompts"):
        raise ArtifactError("--resume: the prompts have changed since the sweep was begun", remedy)
    if earlier.get("servers") != plan.get("servers"):
        raise ArtifactError("--resume: the sweep was measured on other servers, or with another --serve", remedy)
