"""mlx-vlm: `timings` with llama.cpp's names, and `draft_kind` and `draft_rounds` beside them.

Read from mlx-vlm 0.7.10's source (`mlx_vlm/server/schemas.py`) and its pull requests 1788 and 2324; not from a server's
bytes, so provisional. The object rides the body, or the last chunk of a stream; its draft fields are null without a
drafter.
"""

from typing import Any, ClassVar

from aiperf_spec.adapters.description import EngineDescription, PayloadFields
from aiperf_spec.adapters.payload import find_payload
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import ParsedResponse, last_usage


class MlxVlmAdapter:
    """Read mlx-vlm's totals, which are counted over all requests that ran at the time.

    `draft_rounds` are verify steps. `draft_n_accepted` counts what a step accepted before a stop or a limit cut it.
    """

    provisional: ClassVar[str] = "version 0.7.10"
    payload_path: ClassVar[tuple[str, ...]] = ("timings",)
    signature = frozenset({"draft_kind", "draft_rounds", "draft_n", "draft_n_accepted"})
    engine_description: ClassVar[EngineDescription] = EngineDescription(
        name="mlx-vlm",
        owned_by=("mlx_vlm", "mlx-vlm"),
        enable_speculation="start mlx_vlm.server with --draft-model and --draft-kind",
        drafts_chains=True,
        payload=PayloadFields(
            version="version 0.7.10",
            required=signature,
            optional=frozenset(
                {"prompt_n", "cache_n", "predicted_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second"}
                | {"predicted_ms", "predicted_per_token_ms", "predicted_per_second", "peak_memory"}
            ),
        ),
    )

    @classmethod
    def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
        """Say whether an object has all draft fields."""
        return find_payload(responses, cls.signature) is not None

    @classmethod
    def adapt(cls, responses: list[ParsedResponse]) -> SpecDecodeAcceptanceRecord | DraftTotals | None:
        """Return the totals; a record of zero steps where no drafter ran, None where they are malformed."""
        payload, usage = find_payload(responses, cls.signature), last_usage(responses)
        if payload is None:
            return None
        tokens = None if usage is None else usage.completion_tokens
        if all(not payload[name] and not isinstance(payload[name], bool | str) for name in ("draft_rounds", "draft_n")):
            return _without_steps(tokens)
        return _totals(payload, tokens)


def _without_steps(tokens: int | None) -> SpecDecodeAcceptanceRecord:
    return SpecDecodeAcceptanceRecord(
        engine="mlx_vlm",
        mean_acceptance_length=1.0,
        draft_acceptance_rate=0.0,
        acceptance_histogram={},
        num_accepted_draft_tokens=0,
        num_draft_tokens=0,
        num_spec_steps=0,
        completion_tokens=tokens,
    )


def _totals(payload: dict[str, Any], tokens: int | None) -> DraftTotals | None:
    try:
        return DraftTotals(
            engine="mlx_vlm",
            num_draft_tokens=payload["draft_n"],
            num_accepted_draft_tokens=payload["draft_n_accepted"],
            fewest_steps=payload["draft_rounds"],
            most_steps=payload["draft_rounds"],
            completion_tokens=tokens,
            whole_batch=True,
        )
    except ValueError:
        return None
