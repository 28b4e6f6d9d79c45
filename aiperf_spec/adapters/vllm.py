"""vLLM: `metrics.speculative_decoding`, with `--per-request-spec-decode-metrics summary|detailed`.

Read from vLLM 0.32.0's own responses (`tests/wire/vllm`). The object rides the usage chunk of a stream and the
body otherwise; it is null or missing for n > 1 and several prompts.
"""

from typing import Any, ClassVar

from aiperf_spec.adapters.description import (
    TIMING_NAMES,
    EngineCounters,
    EngineDescription,
    PayloadFields,
    TimingFields,
)
from aiperf_spec.adapters.payload import PayloadAdapter, inflate_histogram
from aiperf_spec.adapters.schedules import vllm_schedule

_FIGURES = ("draft_acceptance_rate", "num_accepted_draft_tokens", "num_draft_tokens", "num_spec_tokens")
_PER_STEP = ("per_step_accepted", "per_step_drafted")
_OUTPUT = "output_token_metrics"
"""With --enable-per-request-output-token-metrics, of vLLM's pull request 56914: called experimental in its main branch
(docs/features/per_request_metrics.md, 2026-09), and not in 0.32.0."""
_BY_LENGTH = "acceptance_histogram_by_draft_length"
"""Of vLLM's open pull request 56278 (2026-09-10), so provisional: k + 1 buckets for each proposed length k."""


class VLLMAdapter(PayloadAdapter):
    """Read vLLM's object one to one: its float figures are taken as sent, not derived again."""

    payload_path: ClassVar[tuple[str, ...]] = ("metrics", "speculative_decoding")
    signature = frozenset({"acceptance_histogram", "num_spec_steps", "mean_acceptance_length"})
    engine_description: ClassVar[EngineDescription] = EngineDescription(
        name="vLLM",
        owned_by=("vllm",),
        enable_speculation="""start vLLM with a drafter, such as --speculative-config '{"method": "ngram", """
        """"num_speculative_tokens": 5, "prompt_lookup_max": 4}'""",
        enable_reporting="start vLLM with --per-request-spec-decode-metrics detailed (or summary) beside its "
        "--speculative-config",
        per_step_option="--per-request-spec-decode-metrics detailed",
        # Found by the front end, which ends the request before the engine's last figures come (0.32.0).
        silent_for={"stop": "ended by a stop string", "use_beam_search": "with beam search"},
        reports_on_usage_chunk=True,
        drafts_chains=True,
        counters=EngineCounters(
            verify_steps="vllm:spec_decode_num_drafts",
            proposed_drafts="vllm:spec_decode_num_draft_tokens",
            accepted_drafts="vllm:spec_decode_num_accepted_tokens",
            accepted_per_position="vllm:spec_decode_num_accepted_tokens_per_pos",
            finished_requests="vllm:request_success",
            finished_by_token=frozenset({"use_beam_search"}),
            prompt_tokens="vllm:prefix_cache_queries",
            cached_tokens="vllm:prefix_cache_hits",
            running_requests="vllm:num_requests_running",
            length_gauge="vllm:spec_decode_mean_accepted_length",
            rate_gauge="vllm:spec_decode_draft_acceptance_rate",
            prefix_without_drafter="vllm:",
        ),
        payload=PayloadFields(
            version="version 0.32.0",
            required=signature | set(_FIGURES),
            optional=frozenset({*_PER_STEP, _BY_LENGTH}),
        ),
        # In development mode only (VLLM_SERVER_DEV_MODE=1).
        reset_cache_path="/reset_prefix_cache",
        # With --enable-per-request-metrics; for one sequence only, on the usage chunk of a stream. Each figure is left
        # out where the engine lacks a stamp that it needs.
        timing=TimingFields(
            path=("metrics",),
            fields={name: name for name in TIMING_NAMES},
            others=frozenset({"speculative_decoding"}),
            output={
                "reasoning_tokens": (_OUTPUT, "reasoning", "token_count"),
                "content_tokens": (_OUTPUT, "content", "token_count"),
                "unclassified_tokens": (_OUTPUT, "unclassified_token_count"),
                "time_to_first_reasoning_ms": (_OUTPUT, "reasoning", "time_to_first_token_ms"),
                "time_to_first_content_ms": (_OUTPUT, "content", "time_to_first_token_ms"),
                "reasoning_time_ms": (_OUTPUT, "reasoning", "generation_time_ms"),
                "content_time_ms": (_OUTPUT, "content", "generation_time_ms"),
                "reasoning_itl_ms": (_OUTPUT, "reasoning", "mean_itl_ms"),
                "content_itl_ms": (_OUTPUT, "content", "mean_itl_ms"),
            },
        ),
        schedule=vllm_schedule,
    )

    @classmethod
    def figures(cls, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the record's figures; zero steps where the drafter never proposed."""
        figures = {name: payload.get(name) for name in (*cls.signature, *_FIGURES)}
        figures |= {name: _per_step(payload.get(name)) for name in _PER_STEP}
        histogram = inflate_histogram(payload["acceptance_histogram"], payload.get("num_spec_tokens"))
        figures["histogram_by_proposed"] = _by_length(payload.get(_BY_LENGTH))
        return {**figures, "engine": "vllm", "acceptance_histogram": histogram}


def _by_length(value: Any) -> dict[int, dict[int, Any]] | None:
    # What it will look like is not settled: another shape costs the record no more than this.
    if not isinstance(value, dict) or not all(isinstance(buckets, list) for buckets in value.values()):
        return None
    if not value or not all(length.isdecimal() and len(length) < 6 for length in value):
        return None
    return {int(length): inflate_histogram(buckets, int(length)) for length, buckets in value.items()}


def _per_step(value: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError("a per-step array must be a list")
    return tuple(value)
