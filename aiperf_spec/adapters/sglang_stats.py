"""SGLang's `sglext.speculative_decoding_stats`, with `--speculative-decoding-stats summary|detailed`.

Written against its open pull request 34814 (2026-08-14, commit 622d048d) and the tests in it, so provisional. One
object a choice, in a list; the lengths hold the token that every step gives.
"""

from collections import Counter
from typing import Any, ClassVar

from aiperf_spec.adapters.payload import PayloadAdapter, inflate_histogram, ratio


class SGLangStatsAdapter(PayloadAdapter):
    """Read SGLang's exact counts: what each step verified and accepted, before a stop or a grammar cut it."""

    provisional: ClassVar[str] = "pull request 34814"
    payload_path: ClassVar[tuple[str, ...]] = ("sglext", "speculative_decoding_stats", "*")
    signature = frozenset({"num_verification_steps", "num_verified_draft_tokens", "num_accepted_draft_tokens"})

    @classmethod
    def figures(cls, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the record's figures; the histogram is that of the single steps where they are sent."""
        steps, accepted = payload["num_verification_steps"], payload["num_accepted_draft_tokens"]
        proposed = payload["num_verified_draft_tokens"]
        per_step = _drafts(payload.get("accept_lengths"))
        return {
            "engine": "sglang",
            "mean_acceptance_length": 1 + ratio(accepted, steps),
            "draft_acceptance_rate": ratio(accepted, proposed),
            "acceptance_histogram": _histogram(payload) if per_step is None else dict(Counter(per_step)),
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": proposed,
            "num_spec_steps": steps,
            "per_step_accepted": per_step,
            "per_step_drafted": _drafts(payload.get("verify_lengths")),
        }


def _drafts(lengths: Any) -> tuple[int, ...] | None:
    if lengths is None:
        return None
    if not isinstance(lengths, list) or any(type(length) is not int for length in lengths):
        raise ValueError("lengths of steps must be a list of integers")
    return tuple(length - 1 for length in lengths)


def _histogram(payload: dict[str, Any]) -> dict[int, Any]:
    # The pull request's description names a histogram of accepted drafts, and not its key.
    found = [value for key, value in payload.items() if key.endswith("histogram")]
    if len(found) != 1:
        raise ValueError("no histogram, and no single steps")
    return inflate_histogram(found[0])
