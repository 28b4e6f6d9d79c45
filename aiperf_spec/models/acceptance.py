"""The engine-neutral acceptance record and the reasons for its absence."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, Strict, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from aiperf_spec.models.identities import MAX_COUNT, MAX_DRAFT, ROUNDING, check_by_proposed, check_identities


class DropReason(StrEnum):
    """Name why a request has no acceptance record."""

    ABSENT = "absent"
    """The engine reported nothing."""
    ZERO_STEP = "zero_step"
    """The engine reported that no verify step ran (vLLM and llama.cpp)."""
    TOTALS_ONLY = "totals_only"
    """The engine reported drafts in all and not by steps: `DraftTotals` holds them."""
    MULTI_SEQUENCE = "multi_sequence"
    """The response held, or was asked to hold, more than one sequence."""
    AMBIGUOUS = "ambiguous"
    """More than one adapter claimed the payload."""
    UNRECOGNIZED = "unrecognized"
    """No adapter claimed the payload."""
    MALFORMED = "malformed"
    """The payload contradicts itself, or an adapter failed on it."""
    FAILED = "failed"
    """The request itself failed, so its figures are not used."""


# Engines send whole numbers. A bool, a string or 3.0 in their place means that the
# sender is not what we think it is, and pydantic's lax mode would hide that.
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_COUNT)]
DraftLength = Annotated[int, Strict(), Field(ge=0, le=MAX_DRAFT)]
Figure = Annotated[float, Strict(), Field(allow_inf_nan=False)]


@dataclass(slots=True, frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SpecDecodeAcceptanceRecord:
    """Hold what one request's verify steps proposed and accepted, whatever the engine.

    Counts are of draft tokens and verify steps of one sequence. The record refuses figures that
    contradict each other (pydantic `ValidationError`): whoever holds one may add its numbers up. It is a validated
    dataclass with slots rather than a model: a run keeps one for each request, at a third of the memory.
    """

    engine: str = Field(min_length=1)
    """The adapter's name for the engine: "vllm", "tensorrt_llm", "sglang", or a plug-in's."""
    mean_acceptance_length: Figure = Field(ge=1)
    """As the engine sends it; figures are made of `length`."""
    draft_acceptance_rate: Figure = Field(ge=0, le=1)
    """As the engine sends it, a fraction; figures are made of `rate`."""
    acceptance_histogram: dict[Annotated[int, Field(ge=0, le=MAX_DRAFT)], Count]
    """Accepted count -> verify steps that accepted as many; zero buckets are left out."""
    num_accepted_draft_tokens: Count
    num_draft_tokens: Count
    """Proposed draft tokens."""
    num_spec_steps: Count
    num_spec_tokens: DraftLength | None = None
    """The fixed draft length k; None where the engine has none or does not say."""
    completion_tokens: Count | None = None
    """From usage; None where usage was omitted."""
    per_step_accepted: tuple[Count, ...] | None = None
    per_step_drafted: tuple[Count, ...] | None = None
    histogram_by_proposed: dict[DraftLength, dict[DraftLength, Count]] | None = None
    """Proposed count -> accepted count -> verify steps, where the engine says so without figures of single steps."""
    proposed_counted: bool = True
    """Whether `num_draft_tokens` is what was proposed; False where the engine computed it from settings that
    it did not draft with. The rate then means nothing."""

    @property
    def length(self) -> float | None:
        """Return 1 + accepted / steps, the tokens that a verify step emitted; None without a step."""
        return 1 + self.num_accepted_draft_tokens / self.num_spec_steps if self.num_spec_steps else None

    @property
    def other_length(self) -> float | None:
        """Return the length that the engine sends where it is none of its counts; None where rounding explains it."""
        apart = self.length is not None and abs(self.mean_acceptance_length - self.length) > ROUNDING + 1e-9
        return self.mean_acceptance_length if apart else None

    @property
    def rate(self) -> float | None:
        """Return accepted / proposed, a fraction; None where nothing was proposed, or it is not counted."""
        return self.num_accepted_draft_tokens / self.proposed if self.proposed else None

    @property
    def proposed(self) -> int | None:
        """Return the proposed draft tokens; None where they are not counted."""
        return self.num_draft_tokens if self.proposed_counted else None

    def model_dump(self, *, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
        """Return the fields; mode "json" has string keys in the histogram and lists for arrays.

        `proposed_counted` is among them where it is False, `histogram_by_proposed` where there is one.
        """
        fields: dict[str, Any] = _adapter().dump_python(self, mode=mode)
        if self.proposed_counted:
            del fields["proposed_counted"]
        if self.histogram_by_proposed is None:
            del fields["histogram_by_proposed"]
        return fields

    @model_validator(mode="after")
    def _check_identities(self) -> Self:
        check_identities(
            histogram=self.acceptance_histogram,
            steps=self.num_spec_steps,
            accepted=self.num_accepted_draft_tokens,
            proposed=self.num_draft_tokens,
            bound=self.num_spec_tokens,
            length=self.mean_acceptance_length,
            rate=self.draft_acceptance_rate,
            per_step_accepted=self.per_step_accepted,
            per_step_proposed=self.per_step_drafted,
        )
        if self.histogram_by_proposed is not None:
            check_by_proposed(self.histogram_by_proposed, self.acceptance_histogram, self.num_draft_tokens)
        return self


@cache
def _adapter() -> TypeAdapter[SpecDecodeAcceptanceRecord]:
    return TypeAdapter(SpecDecodeAcceptanceRecord)
