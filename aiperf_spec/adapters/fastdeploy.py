"""FastDeploy: `choices[*].speculate_metrics`, on the last chunk with a choice, or in the body.

Read from `fastdeploy/output/token_processor.py` of its develop branch (2026) and the responses that its own tests
expect; not from a server's bytes, so provisional.
"""

from itertools import pairwise
from typing import Any, ClassVar

from aiperf_spec.adapters.description import EngineDescription, PayloadFields
from aiperf_spec.adapters.payload import PayloadAdapter, ratio


class FastDeployAdapter(PayloadAdapter):
    """Read FastDeploy's counts of steps that gave at least 1, 2, ... tokens, which make an exact histogram.

    The prompt's own pass is counted among them as a step of one token, and is taken out. So are steps without a draft,
    which look like those that accepted nothing. What was proposed is computed, not counted: steps x k.
    """

    provisional: ClassVar[str] = "its develop branch"
    payload_path: ClassVar[tuple[str, ...]] = ("choices", "*", "speculate_metrics")
    signature = frozenset({"accepted_tokens_per_head", "accepted_tokens", "average_accept_length"})
    engine_description: ClassVar[EngineDescription] = EngineDescription(
        name="FastDeploy",
        owned_by=("fastdeploy",),
        enable_speculation="""start FastDeploy with a drafter, such as --speculative-config '{"method": "mtp", """
        """"num_speculative_tokens": 1}'""",
        drafts_chains=True,
        payload=PayloadFields(
            version="its develop branch",
            required=signature,
            optional=frozenset({"rejected_tokens", "accept_ratio", "accept_ratio_per_head"}),
        ),
    )

    @classmethod
    def figures(cls, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the record's figures; zero steps where the prompt's own pass gave the only token."""
        heads = payload["accepted_tokens_per_head"]
        if not isinstance(heads, list) or any(type(count) is not int for count in heads):
            raise ValueError("counts by head must be a list of integers")
        if (
            not heads
            or any(later > earlier for earlier, later in pairwise(heads))
            or sum(heads) != payload["accepted_tokens"]
        ):
            raise ValueError("counts by head that no steps make")
        gave = [earlier - later for earlier, later in pairwise([*heads, 0])]
        gave[0] -= 1
        steps, accepted = heads[0] - 1, sum(heads[1:])
        return {
            "engine": "fastdeploy",
            "mean_acceptance_length": 1 + ratio(accepted, steps),
            "draft_acceptance_rate": ratio(accepted, steps * (len(heads) - 1)),
            "acceptance_histogram": {count: number for count, number in enumerate(gave) if number},
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": steps * (len(heads) - 1),
            "num_spec_steps": steps,
            "num_spec_tokens": len(heads) - 1,
            "proposed_counted": False,
        }
