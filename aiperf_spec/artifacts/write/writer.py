"""Write a run's artifact folder: the one place that does."""

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from aiperf_spec.analysis.report import Analysis
from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.write.analysis_json import analysis_json
from aiperf_spec.artifacts.write.config_yaml import config_yaml
from aiperf_spec.artifacts.write.record_lines import raw_line, record_line
from aiperf_spec.artifacts.write.server_metrics_files import server_metrics_csv, server_metrics_json
from aiperf_spec.artifacts.write.summary_files import summary_csv, summary_json
from aiperf_spec.artifacts.write.whole_file import new_file, not_written, write_whole
from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.errors import ArtifactError, SpecProfileError, standing_alone
from aiperf_spec.metrics.summary import Summary
from aiperf_spec.models.run import RequestRecord, RunInfo, RunResult
from aiperf_spec.render.text import plural


class ArtifactWriter:
    """Open a folder before the first request, append each record as its request ends, write the summary last.

    A line is one write, so that a killed run leaves every finished request readable. When writing fails, the run goes
    on without it and `finish` says so: what was measured is still shown.
    """

    def __init__(self, config: ProfileConfig, settings: ReportSettings) -> None:
        self._config = config
        self._settings = settings
        self._folder: Path | None = None
        self._wall_offset_ns = 0
        self._files: dict[str, int] = {}
        self._given_up: set[str] = set()
        self._appended_records = 0
        self._is_finished = False
        self._faults: list[SpecProfileError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def open(self, info: RunInfo) -> Path:
        """Make the folder and its files, and return the folder.

        Raises `ArtifactError` where the folder cannot be written, or holds a run and may not be overwritten.
        """
        folder = self._config.artifact_dir or names.default_folder(info)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            taken = [name for name in names.ALL if os.path.lexists(folder / name)]
            if taken and not self._config.overwrite:
                raise ArtifactError(
                    f"--artifact-dir {str(folder)!r} already holds a run ({taken[0]})",
                    "choose another folder, or add --overwrite",
                )
            for name in taken:
                (folder / name).unlink()
            for name in self._appended():
                self._files[name] = new_file(folder / name)
            # The summary is written last, but whether it can be is to be known first.
            probe = folder / f".{names.SUMMARY_JSON}.tmp"
            probe.unlink(missing_ok=True)
            os.close(new_file(probe))
            probe.unlink()
        except OSError as error:
            raise not_written(folder, error) from None
        self._folder = folder
        # Before the first request: a killed run can be repeated too.
        self._replace(names.CONFIG_YAML, lambda: config_yaml(info, self._settings))
        self._wall_offset_ns = info.wall_offset_ns
        return folder

    def _appended(self) -> tuple[str, ...]:
        level = self._config.export_level
        if level is ExportLevel.SUMMARY:
            return ()
        return (names.RECORDS_JSONL, names.RAW_JSONL) if level is ExportLevel.RAW else (names.RECORDS_JSONL,)

    def append(self, record: RequestRecord) -> None:
        """Write one record."""
        for name, line in ((names.RECORDS_JSONL, record_line), (names.RAW_JSONL, raw_line)):
            if name in self._files and name not in self._given_up:
                try:
                    self._write(name, line(record, self._wall_offset_ns))
                    self._appended_records += name == names.RECORDS_JSONL
                except Exception:
                    # Entered only here: a run comes by with every record.
                    with standing_alone(self._shown(name), self._faults, writes=True):
                        raise

    def kept(self) -> str:
        """Say in a clause what is on disk by now, and where: for a run that ends at once."""
        if self._folder is None:
            return "nothing was sent"
        if self._is_finished:
            return f"its files are in {self._folder}"
        if names.RECORDS_JSONL not in self._files:
            return "nothing was kept, for --export-level summary writes its files at the end"
        file = self._folder / names.RECORDS_JSONL
        return f"{plural(self._appended_records, 'request')} that had ended are kept in {file}"

    def _write(self, name: str, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._files[name], data) :]
        except OSError:
            self._given_up.add(name)
            raise

    def _shown(self, name: str) -> str:
        return repr(str((self._folder or Path()) / name))

    def finish(self, result: RunResult, summary: Summary, analysis: Analysis | None) -> list[SpecProfileError]:
        """Write the summary files, each by itself; return why, where something of the run could not be written."""
        if self._folder is None:
            return []
        self._replace(names.SUMMARY_JSON, lambda: summary_json(result, summary))
        self._replace(names.SUMMARY_CSV, lambda: summary_csv(summary))
        if (metrics := result.server_metrics) is not None:
            self._replace(
                names.SERVER_METRICS_JSON, lambda: server_metrics_json(metrics, result.run_id, result.reconciliation)
            )
            self._replace(names.SERVER_METRICS_CSV, lambda: server_metrics_csv(metrics, result.run_id))
        if analysis is not None:
            self._replace(names.ANALYSIS_JSON, lambda: analysis_json(analysis))
        self._is_finished = True
        return self._faults

    def _replace(self, name: str, make: Callable[[], bytes]) -> None:
        assert self._folder is not None
        with standing_alone(self._shown(name), self._faults, writes=True):
            write_whole(self._folder / name, make())
