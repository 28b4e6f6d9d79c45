"""SGLang: `sglext.spec_tokens_details`, asked for by `return_spec_tokens_details: true` in the request.

Read from SGLang 0.5.23's own responses (`tests/wire/sglang`). The object rides the body, or a chunk of its own with
empty choices between the finish chunk and the usage chunk. Several sequences give a list.
"""

from typing import Any, ClassVar

from aiperf_spec.adapters.description import DrafterFields, EngineCounters, EngineDescription, PayloadFields
from aiperf_spec.adapters.payload import PayloadAdapter, inflate_histogram, ratio
from aiperf_spec.adapters.schedules import sglang_schedule


class SGLangAdapter(PayloadAdapter):
    """Read SGLang's counts; length and rate are derived from them.

    `spec_accept_length` is completion tokens over steps and counts the prefill token, so it is no acceptance length
    and stays unused. The draft length is not reported. `spec_num_proposed_drafts` is computed, not counted: steps x
    (speculative_num_draft_tokens - 1), whatever an adaptive server drafted. /server_info says what that is made of.
    """

    payload_path: ClassVar[tuple[str, ...]] = ("sglext", "spec_tokens_details")
    signature = frozenset(
        {"spec_verify_ct", "spec_num_correct_drafts", "spec_num_proposed_drafts", "spec_correct_drafts_histogram"}
    )
    engine_description: ClassVar[EngineDescription] = EngineDescription(
        name="SGLang",
        owned_by=("sglang",),
        enable_speculation="start SGLang with a drafter: --speculative-algorithm EAGLE3 (or another) and its draft "
        "model",
        request_inputs={"return_spec_tokens_details": True},
        drafts_chains=True,
        schedule=sglang_schedule,
        settings_path="/server_info",
        reset_cache_path="/flush_cache",
        drafter=DrafterFields(
            method="speculative_algorithm",
            depth="speculative_num_steps",
            branches="speculative_eagle_topk",
            verified="speculative_num_draft_tokens",
            adaptive="speculative_adaptive",
            # It counts two tokens of each step as none of its draft's.
            bonus_tokens={"UNO": 2},
            overlap_off="disable_overlap_schedule",
            # NGRAM drafts trees, DFLASH, DSPARK and UNO blocks.
            chains=frozenset({"EAGLE", "EAGLE3", "NEXTN", "FROZEN_KV_MTP", "STANDALONE"}),
        ),
        counters=EngineCounters(
            verify_steps="sglang:spec_verify_calls",
            # Accepted + batch size of each decode step, on every rank that reports metrics.
            emitted_tokens="sglang:realtime_tokens",
            emitted_labels={"mode": "decode"},
            copy_labels=frozenset({"tp_rank", "pp_rank", "moe_ep_rank"}),
            completion_tokens="sglang:generation_tokens",
            aborted_requests="sglang:num_aborted_requests",
            finished_requests="sglang:num_requests",
            # For n above 1 it first puts the prompt into its prefix cache, by a request of its own.
            finished_beyond=1,
            prompt_tokens="sglang:prompt_tokens",
            cached_tokens="sglang:cached_tokens",
            running_requests="sglang:num_running_reqs",
            length_gauge="sglang:spec_accept_length",
            rate_gauge="sglang:spec_accept_rate",
        ),
        payload=PayloadFields(
            version="version 0.5.23",
            required=signature,
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

    @classmethod
    def figures(cls, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the record's figures; zero steps are malformed, for the engine then leaves the object out."""
        steps, accepted = payload["spec_verify_ct"], payload["spec_num_correct_drafts"]
        if not steps:
            raise ValueError("no verify step")
        proposed = payload["spec_num_proposed_drafts"]
        return {
            "engine": "sglang",
            "mean_acceptance_length": 1 + ratio(accepted, steps),
            "draft_acceptance_rate": ratio(accepted, proposed),
            "acceptance_histogram": inflate_histogram(payload["spec_correct_drafts_histogram"]),
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": proposed,
            "num_spec_steps": steps,
            # DSPARK may verify fewer tokens of a draft than it has; what it verified is no part of the count.
            "proposed_counted": not payload.get("spec_cap_length"),
        }
