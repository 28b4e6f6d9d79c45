"""SGLang: `sglext.spec_tokens_details`, asked for by `return_spec_tokens_details: true` in the request.

Read from SGLang 0.5.23's own responses (`tests/wire/sglang`). The object rides the body, or a chunk of its own with
empty choices between the finish chunk and the usage chunk. Several sequences give a list.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import ValidationError

from aiperf_spec.adapters.description import EngineCounters, EngineDescription, PayloadFields, SettingsPage
from aiperf_spec.adapters.payload import completion_tokens, find_payload, inflate_histogram, ratio
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.response import ParsedResponse

_SIGNATURE = frozenset(
    {
        "spec_verify_ct",
        "spec_num_correct_drafts",
        "spec_num_proposed_drafts",
        "spec_correct_drafts_histogram",
    }
)
_DESCRIPTION = EngineDescription(
    name="SGLang",
    owned_by=("sglang",),
    enable_speculation="start SGLang with a drafter: --speculative-algorithm EAGLE3 (or another) and its draft model",
    request_inputs={"return_spec_tokens_details": True},
    drafts_chains=True,
    settings_page=SettingsPage(path="/get_server_info", drafter_key="speculative_algorithm"),
    counters=EngineCounters(
        verify_steps="sglang:spec_verify_calls",
        finished_requests="sglang:num_requests",
        length_gauge="sglang:spec_accept_length",
        rate_gauge="sglang:spec_accept_rate",
    ),
    payload=PayloadFields(
        version="version 0.5.23",
        required=_SIGNATURE,
        optional=frozenset(
            {
                "spec_accept_length",
                "spec_accept_rate",
                "spec_block_accept_length",
                "spec_cap_length",
                "spec_cap_lens_histogram",
            }
        ),
    ),
)


class SGLangAdapter:
    """Read SGLang's counts; length and rate are derived from them.

    `spec_accept_length` is completion tokens over steps and counts the prefill token, so it is no acceptance length
    and stays unused. The draft length is not reported.
    """

    payload_path: ClassVar[tuple[str, ...]] = ("sglext", "spec_tokens_details")
    engine_description: ClassVar[EngineDescription] = _DESCRIPTION

    @classmethod
    def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
        """Say whether an object has SGLang's signature keys."""
        return find_payload(responses, _SIGNATURE) is not None

    @classmethod
    def adapt(cls, responses: list[ParsedResponse]) -> SpecDecodeAcceptanceRecord | None:
        """Return the record; None for zero steps too, which the engine reports by leaving the object out."""
        payload = find_payload(responses, _SIGNATURE)
        if payload is None or not payload["spec_verify_ct"]:
            return None
        steps = payload["spec_verify_ct"]
        accepted = payload["spec_num_correct_drafts"]
        proposed = payload["spec_num_proposed_drafts"]
        try:
            return SpecDecodeAcceptanceRecord(
                engine="sglang",
                mean_acceptance_length=1 + ratio(accepted, steps),
                draft_acceptance_rate=ratio(accepted, proposed),
                acceptance_histogram=inflate_histogram(payload["spec_correct_drafts_histogram"]),
                num_accepted_draft_tokens=accepted,
                num_draft_tokens=proposed,
                num_spec_steps=steps,
                completion_tokens=completion_tokens(responses),
            )
        except (ValidationError, ValueError, OverflowError):
            return None
