"""Decode lines of `profile_export.jsonl`, ours or AIPerf's, and add them up.

Every reader of records decodes its lines here, so that all of them accept the same ones: JSON whose metadata, error and
acceptance have the types that they should, and whose acceptance holds the identities of an acceptance record. Most of a
line is metrics, which say nothing of that: whoever wants them decodes them apart.

Large files are added up by processes of their own, which import this module and little else.
"""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from aiperf_spec.artifacts.read.files import lines
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.identities import (
    MAX_COUNT,
    MAX_DRAFT,
    ROUNDING,
    check_by_proposed,
    check_identities,
    undrafted_steps,
)
from aiperf_spec.models.prompt_sums import PromptSums, prompt_key

_Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_DraftLength = Annotated[int, Meta(ge=0, le=MAX_DRAFT)]
_Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_DIGITS = b"0123456789"
_DIGIT = [_DIGITS[k : k + 1] for k in range(10)]
_BELOW = [_DIGITS[:k] for k in range(10)]
_ZERO = ord("0")
_MANY_STEPS = 10_000
_LINES_AT_ONCE = 1000
_Counts = tuple[int, int, int | None]
"""What one request adds: accepted drafts, verify steps, proposed drafts where they are counted."""
_decode_steps = Decoder(tuple[_Count, ...] | None).decode


class Acceptance(Struct, gc=False):
    """The fields of a `SpecDecodeAcceptanceRecord`, which they make: checked, but for the arrays not decoded."""

    engine: Annotated[str, Meta(min_length=1)]
    mean_acceptance_length: Annotated[float, Meta(ge=1)]
    draft_acceptance_rate: Annotated[float, Meta(ge=0, le=1)]
    acceptance_histogram: dict[_DraftLength, _Count]
    num_accepted_draft_tokens: _Count
    num_draft_tokens: _Count
    num_spec_steps: _Count
    num_spec_tokens: _DraftLength | None = None
    completion_tokens: _Count | None = None
    per_step_accepted: Raw = Raw(b"null")
    per_step_drafted: Raw = Raw(b"null")
    histogram_by_proposed: dict[_DraftLength, dict[_DraftLength, _Count]] | None = None
    proposed_counted: bool = True

    def __post_init__(self) -> None:
        if self.histogram_by_proposed is not None:
            check_by_proposed(self.histogram_by_proposed, self.acceptance_histogram, self.num_draft_tokens)
        # What `check_identities` finds, in a fifth of the time, for nearly all lines: k is below 10 and the arrays are
        # written without spaces, so that each step is one digit.
        steps, k, histogram = self.num_spec_steps, self.num_spec_tokens, self.acceptance_histogram
        accepted, proposed = bytes(self.per_step_accepted), bytes(self.per_step_drafted)
        frame, high = _frames(steps) if steps < _MANY_STEPS else (b"", 0)
        if k is not None and k < 10 and accepted[::2] == proposed[::2] == frame:
            accepted, proposed = accepted[1::2], proposed[1::2]
            total = among = 0
            for bucket, times in histogram.items():
                if bucket > k or not times or accepted.count(_ZERO + bucket) != times:
                    break
                total += times
                among += bucket * times
            # Nearly all steps propose k, so that the others are few.
            short = proposed.translate(None, _DIGIT[k])
            if (
                total == steps
                and among == self.num_accepted_draft_tokens
                and not short.translate(None, _BELOW[k])
                and k * steps - (k + _ZERO) * len(short) + sum(short) == self.num_draft_tokens
                # All steps at once: 128 + proposed - accepted keeps its high bit where no more was accepted.
                and (int.from_bytes(proposed) + high - int.from_bytes(accepted)) & high == high
                and self.mean_acceptance_length <= k + 1
                and abs(self.draft_acceptance_rate * self.num_draft_tokens - among) < ROUNDING * self.num_draft_tokens
            ):
                return
        check_identities(
            histogram=histogram,
            steps=steps,
            accepted=self.num_accepted_draft_tokens,
            proposed=self.num_draft_tokens,
            bound=k,
            length=self.mean_acceptance_length,
            rate=self.draft_acceptance_rate,
            per_step_accepted=_decode_steps(self.per_step_accepted),
            per_step_proposed=_decode_steps(self.per_step_drafted),
        )


@cache
def _frames(steps: int) -> tuple[bytes, int]:
    """Return what stands around the digits of as many steps, and a number with the high bit of a byte for each."""
    return b"[" + b"," * (steps - 1) + b"]", int.from_bytes(b"\x80" * steps)


class Metadata(Struct, gc=False):
    """What a line says of its request, as AIPerf names it; the last two are ours. Times are the wall clock's in ns."""

    session_num: _Whole
    benchmark_phase: Literal["profiling", "warmup"]
    request_start_ns: _Whole
    request_end_ns: _Whole
    request_ack_ns: _Whole | None = None
    conversation_id: str | None = None
    turn_index: _Whole | None = None
    source_kind: str | None = None
    phase_kind: str | None = None
    prompt_hash: str | None = None
    finish_reason: str | None = None


class ErrorDetails(Struct, gc=False):
    """How a request failed, in AIPerf's words."""

    message: str
    code: int | None = None
    type: str | None = None
    cause_chain: tuple[str, ...] | None = None


class RecordLine(Struct, gc=False):
    """One line without its metrics."""

    metadata: Metadata
    spec_decode_acceptance: Acceptance | None = None
    spec_decode_drop_reason: str | None = None
    spec_decode_draft_totals: DraftTotals | None = None
    error: ErrorDetails | None = None

    @property
    def measured(self) -> bool:
        """Whether figures are made of it: successful, and of no warm-up; AIPerf says so of a phase, or of its kind."""
        metadata = self.metadata
        return self.error is None and metadata.benchmark_phase == "profiling" and metadata.phase_kind != "warmup"


class _Tokens(Struct):
    value: _Whole


class _Metrics(Struct):
    output_sequence_length: _Tokens


class _TokensLine(Struct):
    metrics: _Metrics


NO_RECORD = (ValueError, RecursionError)
"""What a line raises that is no record."""
_METRICS = b'},"metrics":{'
_ACCEPTANCE = b'"}},"spec_decode_acceptance":{'
_decode = Decoder(RecordLine).decode
_decode_tokens = Decoder(_TokensLine).decode


def decode_line(text: bytes) -> RecordLine:
    """Return what a line says; raise one of `NO_RECORD` where it is no record."""
    # As both programs write a line, its metrics can be cut out. A quotation mark within a string is escaped, so these
    # are keys; where they are keys of anything deeper, what is left is no JSON, and the whole line is decoded instead.
    cut_to = text.rfind(_ACCEPTANCE)
    cut_from = text.rfind(_METRICS, 0, cut_to) if cut_to > 0 else -1
    if cut_from > 0:
        try:
            return _decode(text[: cut_from + 1] + text[cut_to + 3 :])
        except NO_RECORD:
            pass
    return _decode(text)


@dataclass(slots=True)
class RecordTotals:
    """What a run's records, or a part of them, add up to, in bounded memory.

    `categories` has the sums by prompt of successful profiled requests with an acceptance record; None is the category
    of records that have none. `succeeded` counts all that succeeded, `unreadable` the lines that are no record.
    """

    categories: dict[str | None, PromptSums] = field(default_factory=dict)
    succeeded: int = 0
    unreadable: int = 0
    undrafted: int | None = 0
    """Decode steps without a draft; None where tokens of a request with acceptance were not counted."""

    @property
    def drafted_share(self) -> float | None:
        """Verify steps / decode steps, a fraction; None where they are not known."""
        steps = sum(total.steps for total in self.categories.values())
        return None if self.undrafted is None or not steps else steps / (steps + self.undrafted)

    def take(self, part: RecordTotals) -> None:
        """Add the records of another part of the file."""
        for category, prompts in part.categories.items():
            self.categories.setdefault(category, PromptSums()).merge(prompts)
        self.succeeded += part.succeeded
        self.unreadable += part.unreadable
        both = self.undrafted is not None and part.undrafted is not None
        self.undrafted = (self.undrafted or 0) + (part.undrafted or 0) if both else None

    def add(self, terms: Mapping[tuple[str | None, str | None, str | None], Sequence[_Counts]]) -> None:
        """Add requests by their category, prompt hash and prompt id."""
        for (category, prompt_hash, prompt_id), each in terms.items():
            sums = self.categories.setdefault(category or None, PromptSums())
            accepted, steps, proposed = zip(*each, strict=True)
            known = None if None in proposed else sum(proposed)
            sums.add(prompt_key(prompt_hash, prompt_id), len(each), sum(accepted), sum(steps), known)


def read_part(path: Path, start: int, end: int | None) -> RecordTotals:
    """Return the totals of the lines that begin within these bytes of a file; to its end where `end` is None."""
    part = RecordTotals()
    # What few lines have in common is added up apart, a prompt at a time: that is quicker, line by line.
    terms: defaultdict[tuple[str | None, str | None, str | None], list[_Counts]] = defaultdict(list)
    undrafted, uncounted = 0, False
    for number, text in enumerate(lines(path, start, end), start=1):
        try:
            line = decode_line(text)
        except NO_RECORD:
            part.unreadable += bool(text.strip())
            continue
        if line.measured:
            metadata, found = line.metadata, line.spec_decode_acceptance
            part.succeeded += 1
            if found is not None:
                accepted, steps = found.num_accepted_draft_tokens, found.num_spec_steps
                prompt = metadata.conversation_id or str(metadata.session_num)
                counts = accepted, steps, found.num_draft_tokens if found.proposed_counted else None
                terms[metadata.source_kind, metadata.prompt_hash, prompt].append(counts)
                if not found.completion_tokens:
                    uncounted = True
                elif (alone := found.completion_tokens - 1 - accepted - steps) > 0:
                    undrafted += alone
            elif line.spec_decode_drop_reason == "zero_step":
                with suppress(*NO_RECORD):
                    undrafted += undrafted_steps(_decode_tokens(text).metrics.output_sequence_length.value, 0, 0)
        if number % _LINES_AT_ONCE == 0:
            part.add(terms)
            terms.clear()
    part.add(terms)
    part.undrafted = None if uncounted else undrafted
    return part


def ignore_interrupt() -> None:
    """Leave Ctrl-C to the first of several processes, which says what is to be said: it reaches all of a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
