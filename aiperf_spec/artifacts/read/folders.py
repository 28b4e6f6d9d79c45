"""Find the folders of runs, ours or AIPerf's, and read each of their files once, when it is asked for."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.answers import load_answers, load_token_choices
from aiperf_spec.artifacts.read.files import existing, load_json
from aiperf_spec.artifacts.read.record_lines import RecordTotals
from aiperf_spec.artifacts.read.records import LoadedRecords, RecordStream, load_records
from aiperf_spec.artifacts.read.server_metrics_file import ServerMetricsFile
from aiperf_spec.artifacts.read.summary_file import SummaryFile
from aiperf_spec.artifacts.read.totals import add_up, read_totals
from aiperf_spec.errors import SpecProfileError
from aiperf_spec.models.response import PromptAndAnswer
from aiperf_spec.models.run import RequestRecord

READABLE_BYTES = 256 << 20
"""Bytes of records up to which a run is shown from them; beyond, from its summary, in constant memory."""
_PREFIXES = ("speed_bench_", "spec_al_")
"""What AIPerf's dataset selectors begin with, before the category."""


class RunFolder:
    """A run's folder. `keep` says that its records stay in memory once they are read, because more is asked of them.
    `with_answers` has records hold what was answered, as far as the run kept it.

    Files that are missing or cannot be read are as if they were empty, but for the records: `SpecProfileError` names
    their file.
    """

    def __init__(self, path: Path, *, keep: bool = False, with_answers: bool = False) -> None:
        self.path = path
        self.name = path.name or str(path)
        """What tells it from others beside it."""
        self.keep = keep
        self._with_answers = with_answers
        self._records: LoadedRecords | None = None
        self._totals: RecordTotals | None = None
        self._answers: dict[frozenset[int], dict[int, PromptAndAnswer]] = {}

    @cached_property
    def summary(self) -> SummaryFile | None:
        """Return its summary; None where a killed run left none, or it cannot be read."""
        document = load_json(self.path, names.SUMMARY_JSON)
        return SummaryFile.model_validate(document) if document else None

    @property
    def described(self) -> SummaryFile:
        """Return its summary, or one that says nothing."""
        return self.summary or SummaryFile()

    @property
    def has_records(self) -> bool:
        """Say whether it holds a line a request."""
        return existing(self.path, names.RECORDS_JSONL) is not None

    @property
    def shown_from_summary(self) -> bool:
        """Say whether its tables come from its summary: it has one, and no records or too many to be read."""
        path = existing(self.path, names.RECORDS_JSONL)
        return self.summary is not None and (path is None or path.stat().st_size > READABLE_BYTES)

    def records(self) -> LoadedRecords:
        """Return its records."""
        if self._records is not None:
            return self._records
        loaded = load_records(self.path, answers=self._with_answers)
        if self.keep:
            self._records = loaded
        return loaded

    def stream(self) -> Iterable[RequestRecord]:
        """Return its records one by one, without keeping them."""
        return RecordStream(self.path) if self._records is None else self._records.records

    def totals(self) -> RecordTotals:
        """Return what its records add up to: of those in memory, else of the file, in constant memory."""
        if self._totals is None:
            self._totals = read_totals(self.path) if self._records is None else add_up(self._records)
        return self._totals

    def answers(self, indexes: frozenset[int]) -> dict[int, PromptAndAnswer]:
        """Return what these requests asked and were answered; empty without a raw file."""
        if indexes not in self._answers:
            self._answers[indexes] = load_answers(self.path, indexes)
        return self._answers[indexes]

    def read_token_choices(self, wanted: Collection[int]) -> None:
        """Give the records in memory whose `id()` is wanted the tokens of their answers, where the run kept them."""
        records = [] if self._records is None else [each for each in self._records.records if id(each) in wanted]
        found = load_token_choices(self.path, {record.index for record in records})
        for record in records:
            if record.answer is not None:
                record.answer.choices = found.get(record.index)

    @cached_property
    def server_metrics(self) -> ServerMetricsFile:
        """Return what the server counted, as exported."""
        return ServerMetricsFile.model_validate(load_json(self.path, names.SERVER_METRICS_JSON))

    @cached_property
    def configuration(self) -> str:
        """Return the text of the run's configuration file."""
        try:
            return (self.path / names.CONFIG_YAML).read_text(errors="replace")
        except OSError:
            return ""

    @cached_property
    def model(self) -> str:
        """Return the model's name, of a killed run from its configuration; "unknown" where nothing says it."""
        if self.summary is None:
            return _configured_model(self.configuration) or "unknown"
        return self.summary.model or "unknown"

    @property
    def selector_category(self) -> str | None:
        """Return the category that the dataset's selector names: of records without one, and of the whole run."""
        for selector in self.described.selectors:
            for prefix in _PREFIXES:
                if selector.startswith(prefix):
                    return selector.removeprefix(prefix)
        return None


def _configured_model(text: str) -> str | None:
    import yaml

    try:
        models = yaml.safe_load(text)["benchmark"]["models"]
    except (KeyError, TypeError, ValueError, RecursionError, yaml.YAMLError):
        return None
    return next((name for name in models if isinstance(name, str) and name), None) if isinstance(models, list) else None


def find_runs(paths: Iterable[Path]) -> list[RunFolder]:
    """Return the runs that are at the paths or beneath them, each once, in the order of the paths and by name.

    Raises `SpecProfileError` naming a path that is no folder or holds no run. A run's own sub-folders are not looked
    into: AIPerf keeps its phases there.
    """
    found: dict[Path, RunFolder] = {}
    for path in paths:
        if not path.is_dir():
            what = "is a file" if path.exists() else "there is no such folder"
            raise SpecProfileError(f"{str(path)!r}: {what}", "give the folder of a run, or a folder above several")
        runs = list(_runs_beneath(path))
        if not runs:
            raise SpecProfileError(
                f"{str(path)!r}: no run in it: neither {names.SUMMARY_JSON} nor {names.RECORDS_JSONL}",
                "give the folder of a run, or a folder above several",
            )
        for run in runs:
            found.setdefault(run.resolve(), RunFolder(run))
    _tell_apart(found)
    return list(found.values())


def _tell_apart(runs: Mapping[Path, RunFolder]) -> None:
    """Name runs of the same name after the folders above them too, as far up as they differ."""
    for length in range(2, 1 + max((len(path.parts) for path in runs), default=0)):
        names = Counter(run.name for run in runs.values())
        for path, run in runs.items():
            if names[run.name] > 1:
                run.name = "/".join(path.parts[-length:])


def by_model(runs: Iterable[RunFolder]) -> list[list[RunFolder]]:
    """Return the runs of each model, models in the order in which they first appear."""
    groups: dict[str, list[RunFolder]] = {}
    for run in runs:
        groups.setdefault(run.model, []).append(run)
    return list(groups.values())


def _runs_beneath(path: Path) -> Iterator[Path]:
    for folder, children, _ in os.walk(path):
        children.sort()
        here = Path(folder)
        if any(existing(here, name) for name in (names.SUMMARY_JSON, names.RECORDS_JSONL)):
            children.clear()
            yield here
