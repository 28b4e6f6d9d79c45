"""TensorRT-LLM: `choices[*].speculative_decoding`, with `per_request_spec_decode_stats: true`.

Read from the documented shape of its pull request 19311 (`tests/wire/tensorrt_llm`), not from a server's bytes. The
object rides each choice, on the terminal chunk of a stream.
"""

from typing import Any, ClassVar

from aiperf_spec.adapters.description import EngineCounters, EngineDescription, PayloadFields
from aiperf_spec.adapters.payload import PayloadAdapter, inflate_histogram, ratio
from aiperf_spec.adapters.schedules import tensorrt_llm_schedule


class TensorRTLLMAdapter(PayloadAdapter):
    """Read TensorRT-LLM's totals; the acceptance length is derived, because none is sent.

    `avg_decoded_tokens_per_iter` beside the object counts every iteration of the engine, verify step or not, and is
    another quantity.
    """

    payload_path: ClassVar[tuple[str, ...]] = ("choices", "*", "speculative_decoding")
    signature = frozenset({"total_accepted_draft_tokens", "total_draft_tokens"})
    engine_description: ClassVar[EngineDescription] = EngineDescription(
        name="TensorRT-LLM",
        owned_by=("tensorrt_llm", "tensorrtllm", "trtllm"),
        enable_speculation="give TensorRT-LLM a speculative_config in its configuration",
        enable_reporting="set per_request_spec_decode_stats: true in TensorRT-LLM's configuration",
        drafts_chains=True,
        schedule=tensorrt_llm_schedule,
        metrics_path="/prometheus/metrics",
        counters=EngineCounters(length_gauge="trtllm:spec_accept_length", rate_gauge="trtllm:spec_accept_rate"),
        payload=PayloadFields(
            version="its pull request 19311",
            required=signature | {"acceptance_histogram", "acceptance_rate", "num_spec_steps"},
            optional=frozenset({"num_spec_tokens"}),
        ),
    )

    @classmethod
    def figures(cls, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the record's figures; zero steps are malformed, for the engine then leaves the object out."""
        # null under a schedule that varies the draft length: then there is no bound to check.
        bound, steps = payload.get("num_spec_tokens"), payload.get("num_spec_steps")
        if not steps:
            raise ValueError("no verify step")
        accepted = payload["total_accepted_draft_tokens"]
        return {
            "engine": "tensorrt_llm",
            "mean_acceptance_length": 1 + ratio(accepted, steps),
            "draft_acceptance_rate": payload.get("acceptance_rate"),
            "acceptance_histogram": inflate_histogram(payload.get("acceptance_histogram"), bound),
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": payload["total_draft_tokens"],
            "num_spec_steps": steps,
            "num_spec_tokens": bound,
        }
