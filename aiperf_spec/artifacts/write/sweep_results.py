"""Write what a sweep says into its folder: `sweep.json`, `sweep.csv`, a page, and the configurations of engines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from aiperf_spec.analysis.sweep.schedule import configurations
from aiperf_spec.analysis.sweep.sweep import SweepAnalysis
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.write.sweep_files import sweep_csv, sweep_json
from aiperf_spec.artifacts.write.whole_file import write_whole
from aiperf_spec.errors import SpecProfileError, standing_alone
from aiperf_spec.models.schedule import Configuration
from aiperf_spec.render.sweep import configuration_reason
from aiperf_spec.render.sweep_sentences import sentences


def write_sweep(folder: Path, analysis: SweepAnalysis, *, page: bool = True) -> list[SpecProfileError]:
    """Write the files, each by itself and in the place of earlier ones; return why, where one could not be written.

    The page needs the `plots` extra; without it, or where `page` is off, there is none.
    """
    faults: list[SpecProfileError] = []
    made = configurations(analysis)
    known = {engine: each for engine, each in made.items() if isinstance(each, Configuration)}
    told = {
        engine: {"file": each.file_name, "content": each.content, "use": each.use, "limits": each.limits}
        if isinstance(each, Configuration)
        else {"reason": configuration_reason(each)}
        for engine, each in made.items()
    }
    _replace(folder / names.SWEEP_JSON, lambda: sweep_json(analysis, list(sentences(analysis)), told), faults)
    _replace(folder / names.SWEEP_CSV, lambda: sweep_csv(analysis), faults)
    for each in known.values():
        _replace(folder / each.file_name, each.text.encode, faults)
    if page and _has_plots():
        _replace(folder / names.SWEEP_HTML, lambda: _page(analysis), faults)
    return faults


def _has_plots() -> bool:
    from aiperf_spec.render.html.template import require_plots

    with suppress(SpecProfileError):
        require_plots()
        return True
    return False


def _page(analysis: SweepAnalysis) -> bytes:
    from aiperf_spec.render.html.sweep_page import sweep_page

    return sweep_page(analysis)


def _replace(path: Path, make: Callable[[], bytes], faults: list[SpecProfileError]) -> None:
    with standing_alone(repr(str(path)), faults, writes=True):
        write_whole(path, make())
