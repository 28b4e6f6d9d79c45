"""Sums by prompt, in bounded memory; readers of large files import this module and little else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import add
from zlib import crc32

_REPEAT = re.compile(r"#\d+$")
"""What tells rows of a file apart that share an id."""
_LARGEST = 4096


def prompt_key(prompt_hash: str | None, prompt_id: str | None, index: int | None = None) -> str:
    """Return what tells a request's prompt from others.

    That is the hash of its content, else (AIPerf's files have none) its id less the suffix of a repeat, else its index:
    a prompt of its own.
    """
    if prompt_hash:
        return prompt_hash
    if prompt_id:
        return _REPEAT.sub("", prompt_id) if "#" in prompt_id else prompt_id
    return "" if index is None else str(index)


@dataclass(slots=True)
class PromptSums:
    """Running sums of requests, accepted drafts, verify steps and proposed drafts by prompt, in bounded memory.

    Up to `largest` prompts, each has its own sums. Beyond, prompts are put into that many groups by a hash of their
    key: leaving out a group instead of a prompt serves the jackknife as well, with thousands of them to leave out.
    The key "" is of requests whose prompts are not told apart.
    """

    largest: int = _LARGEST
    in_groups: bool = False
    """Whether there are more prompts than are kept apart."""
    proposed_counted: bool = True
    """Whether every request counts what it proposed."""
    _sums: dict[str | int, list[int]] = field(default_factory=dict)

    def add(self, key: str, requests: int, accepted: int, steps: int, proposed: int | None) -> None:
        """Add requests of a prompt; `proposed` is None where they do not count it."""
        if proposed is None:
            self.proposed_counted, proposed = False, 0
        place = crc32(key.encode("utf-8", "surrogatepass")) % self.largest if self.in_groups else key
        sums = self._sums.get(place)
        if sums is not None:
            sums[0] += requests
            sums[1] += accepted
            sums[2] += steps
            sums[3] += proposed
            return
        self._sums[place] = [requests, accepted, steps, proposed]
        if len(self._sums) > self.largest:
            self._into_groups()

    def merge(self, other: PromptSums) -> None:
        """Add another's sums: prompts that are in both become one."""
        self.proposed_counted &= other.proposed_counted
        if other.in_groups and not self.in_groups:
            self._into_groups()
        for place, values in other._sums.items():
            if isinstance(place, str):
                self.add(place, *values)
            else:
                self._sums[place] = [*map(add, self._sums.get(place, (0, 0, 0, 0)), values)]

    @property
    def prompts(self) -> int | None:
        """How many prompts there are; None where they are not told apart."""
        return None if self.in_groups or "" in self._sums else len(self._sums)

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return sum(sums[0] for sums in self._sums.values())

    @property
    def steps(self) -> int:
        """How many verify steps there are."""
        return sum(sums[2] for sums in self._sums.values())

    def terms(self, place: int) -> Iterator[tuple[int, int]]:
        """Yield each prompt's accepted drafts and another of its sums, by its place: 2 for steps, 3 for proposed."""
        return ((sums[1], sums[place]) for sums in self._sums.values())

    def _into_groups(self) -> None:
        own, self._sums, self.in_groups = self._sums, {}, True
        for key, values in own.items():
            self.add(str(key), *values)
