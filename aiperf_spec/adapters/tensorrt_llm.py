"""TensorRT-LLM: `choices[*].speculative_decoding`, with `per_request_spec_decode_stats: true`.

Read from the documented shape of its pull request 19311 (`tests/wire/tensorrt_llm`), not from a server's bytes. The
object rides each choice, on the terminal chunk of a stream.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import ValidationError

from aiperf_spec.adapters.description import EngineCounters, EngineDescription, PayloadFields
from aiperf_spec.adapters.payload import completion_tokens, find_payload, inflate_histogram, ratio
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.response import ParsedResponse

_SIGNATURE = frozenset({"total_accepted_draft_tokens", "total_draft_tokens"})
_DESCRIPTION = EngineDescription(
    name="TensorRT-LLM",
    owned_by=("tensorrt_llm", "tensorrtllm", "trtllm"),
    enable_speculation="give TensorRT-LLM a speculative_config in its configuration",
    enable_reporting="set per_request_spec_decode_stats: true in TensorRT-LLM's configuration",
    drafts_chains=True,
    metrics_path="/prometheus/metrics",
    counters=EngineCounters(length_gauge="trtllm:spec_accept_length", rate_gauge="trtllm:spec_accept_rate"),
    payload=PayloadFields(
        version="its pull request 19311",
        required=_SIGNATURE | {"acceptance_histogram", "acceptance_rate", "num_spec_steps"},
        optional=frozenset({"num_spec_tokens"}),
    ),
)


class TensorRTLLMAdapter:
    """Read TensorRT-LLM's totals; the acceptance length is derived, because none is sent.

    `avg_decoded_tokens_per_iter` beside the object counts every iteration of the engine, verify step or not, and is
    another quantity.
    """

    payload_path: ClassVar[tuple[str, ...]] = ("choices", "*", "speculative_decoding")
    engine_description: ClassVar[EngineDescription] = _DESCRIPTION

    @classmethod
    def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
        """Say whether an object has TensorRT-LLM's signature keys."""
        return find_payload(responses, _SIGNATURE) is not None

    @classmethod
    def adapt(cls, responses: list[ParsedResponse]) -> SpecDecodeAcceptanceRecord | None:
        """Return the record; None for zero steps too, which the engine reports by leaving the object out."""
        payload = find_payload(responses, _SIGNATURE)
        if payload is None:
            return None
        # null under a schedule that varies the draft length: then there is no bound to check.
        bound = payload.get("num_spec_tokens")
        steps = payload.get("num_spec_steps")
        if not steps or (bound is not None and type(bound) is not int):
            return None
        accepted = payload["total_accepted_draft_tokens"]
        try:
            return SpecDecodeAcceptanceRecord(
                engine="tensorrt_llm",
                mean_acceptance_length=1 + ratio(accepted, steps),
                draft_acceptance_rate=payload.get("acceptance_rate"),  # type: ignore[arg-type]
                acceptance_histogram=inflate_histogram(payload.get("acceptance_histogram"), bound),
                num_accepted_draft_tokens=accepted,
                num_draft_tokens=payload["total_draft_tokens"],
                num_spec_steps=steps,
                num_spec_tokens=bound,
                completion_tokens=completion_tokens(responses),
            )
        except (ValidationError, ValueError, OverflowError):
            return None
