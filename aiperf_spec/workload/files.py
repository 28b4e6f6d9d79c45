"""Open prompt files: which rows they hold, in which shape, and whether they fit in memory."""

import gzip
import io
import itertools
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from aiperf_spec.config.choices import DatasetSelector, DatasetType
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import InputFileError
from aiperf_spec.workload.formats import EXPECTED, detect, to_prompt
from aiperf_spec.workload.images import LocalImages
from aiperf_spec.workload.prompts import Prompt, hashed
from aiperf_spec.workload.row_settings import RowFaultError, unsent_fields
from aiperf_spec.workload.rows import FileKind, Row, rows

LIMIT_BYTES = 64 * 1024 * 1024
"""Up to this size a file is checked whole before the first request; a larger one is streamed."""
MAX_HELD = 200_000
"""Prompts of such a file that are held; one of more is streamed: a prompt takes half a KB, whatever its row."""
_GZIP = b"\x1f\x8b"
STDIN = Path("-")
_LOOKED_AT = 10
"""Rows by which `auto` decides."""
_ENDINGS = tuple(f".{kind}" for kind in FileKind)
_BEGINNING = 1 << 20


def files_of(path: Path, kind: DatasetType) -> list[Path]:
    """Return the files that a path names: of a folder of random pools or of payloads each one, else the path itself."""
    if kind not in (DatasetType.RANDOM_POOL, DatasetType.RAW_PAYLOAD) or path == STDIN or not path.is_dir():
        return [path]
    try:
        found = sorted(each for each in path.iterdir() if each.name.lower().removesuffix(".gz").endswith(_ENDINGS))
    except OSError as error:
        raise InputFileError(f"--input-file {str(path)!r}: {error.strerror or error}") from None
    if not found:
        raise InputFileError(f"--input-file {str(path)!r} is a directory without a .jsonl, .json or .csv file")
    return found


class PromptFile:
    """One file of prompts. What cannot be read is an `InputFileError` naming the file and the line.

    `type` is what it was read as. `prompts` holds all of them where the file is small enough, else None: then `read`
    goes through the file anew each time.
    """

    def __init__(self, path: Path, id_prefix: str, config: ProfileConfig, limit_bytes: int) -> None:
        self._config = config
        self._id_prefix = id_prefix
        self._limit = limit_bytes
        self.path = _within(path, config.dataset_selector) if path != STDIN and path.is_dir() else path
        self.skipped = 0
        self.unsent_fields: set[str] = set()
        """Fields of rows that were read by now, which other tools read as settings and nothing sends."""
        self.content_hash = ""
        """Of the file's content; of one too large to be held, of its beginning and its size."""
        self.prompts: tuple[Prompt, ...] | None = None
        self._data: bytes | None = None
        self._images = LocalImages(Path() if path == STDIN else self.path.parent)
        self._read_if_small()
        self._kind = self._file_kind()
        self.type = self._find_type()
        if self._data is not None:
            self._hold()
        self._data = None

    @property
    def name(self) -> str:
        """How the file is called where no path is needed."""
        return "standard input" if self.path == STDIN else self.path.name

    def _shown(self) -> str:
        return f"--input-file {str(self.path)!r}"

    def read(self) -> Iterator[Prompt]:
        """Yield its prompts, from the first one."""
        if self.prompts is not None:
            yield from self.prompts
            return
        skipped = found = 0
        for row in self._rows():
            prompt = self._prompt(row)
            if prompt is None:
                skipped += 1
            else:
                found += 1
                yield prompt
            self.skipped = max(self.skipped, skipped)
        if not found:
            bad = f" ({skipped} bad lines were skipped)" if skipped else ""
            raise InputFileError(f"{self._shown()} holds no prompt{bad}", f"each line is {EXPECTED[self.type]}")

    def _prompt(self, row: Row) -> Prompt | None:
        fault, timed = row.fault, self._config.fixed_schedule
        if fault is None:
            identity = f"{self._id_prefix}line-{row.number}"
            try:
                value = row.value if self.type is DatasetType.RAW_PAYLOAD else self._images.put_into(row.value)
                prompt = to_prompt(value, self.type, identity, self._config.endpoint_type, is_timed=timed)
            except RowFaultError as error:
                fault = str(error)
            else:
                self._check_request(prompt, row)
                self.unsent_fields |= unsent_fields(row.value, self.type, is_timed=timed)
                return prompt
        if self._config.skip_bad_lines:
            return None
        raise InputFileError(
            f"{self._place(row)}: {fault}",
            f"each line is {EXPECTED[self.type]}; --skip-bad-lines leaves out and counts what is not",
        )

    def _place(self, row: Row) -> str:
        return f"{self._shown()}, {'entry' if self._kind is FileKind.JSON else 'line'} {row.number}"

    def _check_request(self, prompt: Prompt, row: Row) -> None:
        batch, answers = self._config.batch_size_text, self._config.extra_inputs.get("n")
        own_settings = (
            prompt.extra or prompt.later_settings or prompt.output_length is not None or prompt.payload is not None
        )
        if batch > 1 and (prompt.later or own_settings):
            what = "a conversation of several turns" if prompt.later else "a row with settings of its own"
            why = f"--batch-size-text {batch} sends several rows in one request"
        elif prompt.later and isinstance(answers, int | float) and answers > 1:
            what, why = "a conversation goes on from one answer", f"--extra-inputs n:{answers} asks for more"
        else:
            return
        raise InputFileError(f"{self._place(row)}: {what}, but {why}")

    def _rows(self) -> Iterator[Row]:
        with self._faults_named(), self._open() as stream:
            yield from rows(stream, self._kind)

    @contextmanager
    def _faults_named(self) -> Iterator[None]:
        try:
            yield
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputFileError(f"{self._shown()} is compressed, and damaged or cut short: {error}") from None
        except OSError as error:
            raise InputFileError(f"{self._shown()}: {error.strerror or error}") from None

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        if self._data is not None:
            yield io.BytesIO(self._data)
            return
        with self.path.open("rb") as stream:
            if stream.peek(2)[:2] == _GZIP:
                with gzip.GzipFile(fileobj=stream) as plain:
                    yield cast(BinaryIO, plain)
            else:
                yield stream

    def _read_if_small(self) -> None:
        limit = self._limit
        with self._faults_named():
            if self.path == STDIN:
                data = _standard_input(limit)
            elif (size := self.path.stat().st_size) > limit:
                with self._open() as stream:
                    self.content_hash = hashed(stream.read(_BEGINNING) + str(size).encode())
                return
            else:
                # A compressed file shows its size only while it is read.
                with self._open() as stream:
                    data = stream.read(limit + 1)
        self.content_hash = hashed(data)
        if len(data) <= limit:
            self._data = data
        elif self.path == STDIN:
            raise InputFileError(
                f"--input-file -: standard input holds more than {limit >> 20} MiB, and cannot be read again",
                "save it in a file: a large file is streamed",
            )

    def _hold(self) -> None:
        held = tuple(itertools.islice(self.read(), MAX_HELD + 1))
        if len(held) <= MAX_HELD:
            self.prompts = held
        elif self.path == STDIN:
            raise InputFileError(
                f"--input-file -: standard input holds more than {MAX_HELD:,} prompts, and cannot be read again",
                "save it in a file: a large file is streamed",
            )

    def _file_kind(self) -> FileKind:
        name = self.path.name.lower().removesuffix(".gz")
        for kind in (FileKind.CSV, FileKind.JSON):
            if name.endswith(f".{kind}"):
                return kind
        try:
            with self._open() as stream:
                start = stream.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip()
        except (OSError, EOFError, zlib.error):
            return FileKind.JSONL
        # A line of a JSONL file may be a list too, but then it is a bad line, and no prompt either way.
        return FileKind.JSON if start.startswith(b"[") and start[1:].lstrip()[:1] in (b"{", b"]") else FileKind.JSONL

    def _find_type(self) -> DatasetType:
        asked = self._config.dataset_selector.type
        if asked is not DatasetType.AUTO:
            return asked
        good = (row.value for row in self._rows() if row.fault is None)
        found = detect(itertools.islice(good, _LOOKED_AT))
        if found == {DatasetType.SINGLE_TURN, DatasetType.SPEED_BENCH}:
            return DatasetType.SINGLE_TURN
        if len(found) > 1:
            raise InputFileError(
                f"{self._shown()}: its first rows are of several shapes: {' and '.join(sorted(found))}",
                "say which one is meant by --custom-dataset-type",
            )
        # A file of which nothing is recognised is read as the plainest shape, so that the line at fault is named.
        return found.pop() if found else DatasetType.SINGLE_TURN


def _standard_input(limit: int) -> bytes:
    data = sys.stdin.buffer.read(limit + 1)
    if data[:2] != _GZIP:
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        return stream.read(limit + 1)


def _within(folder: Path, selector: DatasetSelector) -> Path:
    """Return the file of a SPEED-Bench folder that the selector names: `<subset>.jsonl`."""
    if selector.type not in (DatasetType.AUTO, DatasetType.SPEED_BENCH):
        raise InputFileError(f"--input-file {str(folder)!r} is a directory", "give a file of it")
    present = sorted(path.stem for path in folder.glob("*.jsonl"))
    subset = selector.subset or (present[0] if len(present) == 1 else "qualitative")
    if subset in present:
        return folder / f"{subset}.jsonl"
    listed = f"it holds {', '.join(present)}" if present else "it holds no .jsonl file"
    raise InputFileError(
        f"--input-file {str(folder)!r} is a directory without {subset}.jsonl: {listed}",
        "--custom-dataset-type speed_bench_SUBSET names one of a SPEED-Bench folder",
    )
