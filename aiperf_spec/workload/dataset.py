"""Put together the prompts of a run: files or the built-in ones, chosen, and in the order in which they are sent."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import orjson

from aiperf_spec.config.choices import SamplingStrategy
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import InputFileError
from aiperf_spec.models.run import DatasetInfo
from aiperf_spec.workload.files import LIMIT_BYTES, MAX_HELD, STDIN, PromptFile, files_of
from aiperf_spec.workload.prompts import Prompt, order
from aiperf_spec.workload.trace import in_trace

_LOOKED_AT = 10
"""Rows of a streamed file that tell whether it has categories."""
_LISTED = 50
"""Categories of a streamed file that an error lists."""


class Workload:
    """The prompts of a run. Each walk through them starts at the first one, and gives the same order.

    `prompts` is None where a file is too large to be held: it is read again on every pass, in the order in which it
    stands.
    """

    def __init__(self, config: ProfileConfig, files: Sequence[PromptFile]) -> None:
        self._config = config
        self._files = files
        selected = config.dataset_selector.category
        self._categories = frozenset(map(_plain, (*config.category, selected) if selected else config.category))
        self._repeated_ids = 0
        self.prompts = self._held()
        # Of a streamed file the first rows tell, found before the run: a file that is gone at its end loses nothing.
        head = chain.from_iterable(islice(file.read(), _LOOKED_AT) for file in files)
        shown = head if self.prompts is None else iter(self.prompts)
        self._has_categories = any(prompt.category is not None for prompt in shown)
        self._check_count()
        strategy = config.sampling
        if self.prompts is None and strategy is not SamplingStrategy.SEQUENTIAL:
            large = next(file for file in files if file.prompts is None)
            raise InputFileError(
                f"--dataset-sampling-strategy {strategy} needs every prompt at hand, and {str(large.path)!r} is too "
                f"large to be held ({LIMIT_BYTES >> 20} MiB, {MAX_HELD:,} prompts)",
                "shuffle the file itself (shuf IN > OUT) and send it sequentially, or take a part of it",
            )

    def _held(self) -> tuple[Prompt, ...] | None:
        if any(file.prompts is None for file in self._files):
            return None
        prompts = builtin_prompts() if not self._files else [p for file in self._files for p in file.prompts or ()]
        self._repeated_ids = len(prompts) - len({prompt.id for prompt in prompts})
        prompts = list(_with_own_ids(prompts))
        if self._categories:
            present = Counter(prompt.category for prompt in prompts)
            prompts = [prompt for prompt in prompts if self._is_wanted(prompt)]
            if not prompts:
                raise self._no_such_category(present)
        if self._config.fixed_schedule:
            prompts = list(in_trace(sorted(prompts, key=lambda prompt: prompt.due_ms or 0.0), self._config))
        number = self._config.num_prompts
        if number is not None and number > len(prompts):
            message = f"--num-prompts {number}: there are {len(prompts)}"
            again = None if self._config.fixed_schedule else "--request-count sends prompts more than once"
            raise InputFileError(message, again)
        if number is None or self._config.sampling is SamplingStrategy.SEQUENTIAL:
            return tuple(prompts[:number])
        return tuple(random.Random(self._config.random_seed).sample(prompts, number))

    def _check_count(self) -> None:
        turns, count = self.info.turns, self._config.request_count
        if self._config.fixed_schedule and turns is not None and count is not None and count > turns:
            raise InputFileError(
                f"--request-count {count}: --fixed-schedule sends each request of the file once, and there are {turns}"
            )

    def _is_wanted(self, prompt: Prompt) -> bool:
        return not self._categories or _plain(prompt.category) in self._categories

    def _no_such_category(self, present: Counter[str | None]) -> InputFileError:
        listed = ", ".join(f"{name} ({present[name]})" for name in sorted(present, key=str) if name is not None)
        return InputFileError(
            f"no prompt is of category {' or '.join(sorted(self._categories))}",
            f"there are {listed}" if listed else "the prompts have no categories",
        )

    def ordered(self) -> Iterator[Prompt]:
        """Yield prompts without end."""
        if self.prompts is not None:
            yield from order(self.prompts, self._config.sampling, self._config.random_seed)
        while True:
            yield from self._stream()

    def once(self) -> Iterator[Prompt]:
        """Yield as many prompts as there are."""
        return self._stream() if self.prompts is None else islice(self.ordered(), len(self.prompts))

    def _stream(self) -> Iterator[Prompt]:
        wanted = in_trace(self._wanted(), self._config) if self._config.fixed_schedule else self._wanted()
        return islice(wanted, self._config.num_prompts)

    def _wanted(self) -> Iterator[Prompt]:
        none = True
        present: Counter[str | None] = Counter()
        for prompt in chain.from_iterable(file.read() for file in self._files):
            if not self._is_wanted(prompt):
                # Told only where none is found; a file with an own category a row must not fill the memory.
                if len(present) < _LISTED:
                    present[prompt.category] += 1
                continue
            none = False
            yield prompt
        if none:
            raise self._no_such_category(present)

    @property
    def info(self) -> DatasetInfo:
        """What there is to say of the prompts by now: skipped lines of a streamed file are found on the way."""
        known = self.prompts
        names = [file.name for file in self._files]
        types = list(dict.fromkeys(str(file.type) for file in self._files))
        return DatasetInfo(
            name=" + ".join(names) or "built-in",
            path=str(self._files[0].path) if self._files else None,
            entries=None if known is None else len(known),
            has_categories=self._has_categories,
            type=" + ".join(types) or None,
            selector=self._config.dataset_selector.name,
            turns=None if known is None else sum(1 + len(prompt.later) for prompt in known),
            file_hashes=tuple(file.content_hash for file in self._files),
            skipped_lines=sum(file.skipped for file in self._files),
            repeated_ids=self._repeated_ids,
            unsent_fields=tuple(sorted(set().union(*(file.unsent_fields for file in self._files)))),
        )


class UntilFailure:
    """Yield prompts, and end where a streamed file cannot be read on: what was measured until then is kept."""

    def __init__(self, prompts: Iterator[Prompt]) -> None:
        self._prompts = prompts
        self.failure: InputFileError | None = None

    def __iter__(self) -> Iterator[Prompt]:
        return self

    def __next__(self) -> Prompt:
        try:
            return next(self._prompts)
        except InputFileError as error:
            self.failure = error
            raise StopIteration from None


def _plain(category: str | None) -> str:
    return (category or "").strip().lower().replace("-", "_").replace(" ", "_")


def _with_own_ids(prompts: list[Prompt]) -> Iterator[Prompt]:
    # Runs are compared prompt by prompt: two that share an id would be taken for one.
    seen: Counter[str] = Counter()
    for prompt in prompts:
        seen[prompt.id] += 1
        times = seen[prompt.id]
        yield prompt if times == 1 else replace(prompt, id=f"{prompt.id}#{times}")


def builtin_prompts() -> list[Prompt]:
    """Return what is sent when a user names no prompts.

    Three and more for each category in which drafters are known to do differently well, of our own writing.
    """
    lines = Path(__file__).with_name("builtin_prompts.jsonl").read_bytes().splitlines()
    return [Prompt(id=f"builtin-{index}", **orjson.loads(line)) for index, line in enumerate(lines)]


def open_workload(config: ProfileConfig, *, limit_bytes: int = LIMIT_BYTES) -> Workload:
    """Return the prompts that a configuration names; raises `InputFileError` naming file and line.

    A file of up to `limit_bytes` is checked whole, of a larger one the first rows.
    """
    paths = [each for path in config.input_files for each in files_of(path, config.dataset_selector.type)]
    if paths.count(STDIN) > 1:
        raise InputFileError("--input-file -: standard input can be read only once")
    # In several files, rows without an id are named after their file too.
    several = len(paths) > 1
    files = [PromptFile(path, f"{path.stem}:" if several else "", config, limit_bytes) for path in paths]
    return Workload(config, files)
