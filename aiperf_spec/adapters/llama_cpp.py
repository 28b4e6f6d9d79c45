"""llama.cpp: `timings`, whose `draft_n` and `draft_n_accepted` are totals of the response.

Read from llama-server b11434's own responses (`tests/wire/llama_cpp`) and its source. The object rides the body, the
usage chunk of a stream, or its finish chunk where usage is not asked for. `draft_n` is missing where nothing was
drafted. With `timings_per_token: true` in the request, every chunk of a stream carries the totals so far.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from aiperf_spec.adapters.description import (
    DrafterFields,
    EngineCounters,
    EngineDescription,
    PayloadFields,
    TimingFields,
)
from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord
from aiperf_spec.models.draft_totals import DraftTotals
from aiperf_spec.models.response import ParsedResponse, last_usage

NAME = "llama_cpp"
_DRAFTS = frozenset({"draft_n", "draft_n_accepted"})
OTHERS = frozenset({"draft_kind", "draft_rounds", "peak_memory"})
"""What mlx-vlm sends beside the same names, whose totals mean something else."""


class LlamaCppAdapter:
    """Make verify steps of running totals, and `DraftTotals` of those that come at the end alone.

    The server adds a draft to `draft_n` before it verifies it, and what was accepted before it sends the step's first
    token. So totals that changed from one token to the next are one step. Tokens within which no totals came, such as
    the first half of a character, may hide a step: then their number is known between bounds only.
    """

    payload_path: ClassVar[tuple[str, ...]] = ("timings",)
    reads_running_totals: ClassVar[bool] = True
    signature = frozenset({"prompt_n", "prompt_ms", "predicted_n", "predicted_ms"})
    engine_description: ClassVar[EngineDescription] = EngineDescription(
        name="llama.cpp",
        owned_by=("llamacpp", "llama.cpp"),
        enable_speculation="start llama-server with a drafter, such as --spec-type ngram-simple, or --model-draft "
        "FILE.gguf --spec-type draft-simple",
        request_inputs={"timings_per_token": True},
        # Of a stream each sequence has its own usage; a body has that of the first.
        usage_of_one_sequence=True,
        drafts_chains=True,
        version_path="/props",
        version_key="build_info",
        # It says at once whether there is a drafter, and which one since its first request.
        settings_path="/slots",
        drafter=DrafterFields(
            method="speculative.types",
            enabled="speculative",
            within="params",
        ),
        counters=EngineCounters(
            verify_steps="llamacpp:spec_decode_num_drafts",
            proposed_drafts="llamacpp:spec_decode_num_draft_tokens",
            accepted_drafts="llamacpp:spec_decode_num_accepted_tokens",
            accepted_per_position="llamacpp:spec_decode_num_accepted_tokens_per_pos",
            running_requests="llamacpp:requests_processing",
        ),
        payload=PayloadFields(
            version="b11434",
            required=signature,
            optional=_DRAFTS
            | {"cache_n", "prompt_per_token_ms", "prompt_per_second", "predicted_per_token_ms", "predicted_per_second"},
        ),
        timing=TimingFields(
            path=payload_path,
            fields={
                "time_to_first_token_ms": "prompt_ms",
                "generation_time_ms": "predicted_ms",
                "mean_itl_ms": "predicted_per_token_ms",
            },
        ),
    )

    @classmethod
    def can_adapt(cls, responses: list[ParsedResponse]) -> bool:
        """Say whether an object has the engine's signature keys, and none of another engine that has the same."""
        return any(_is_ours(cls.signature, each.spec_decode_stats) for each in responses)

    @classmethod
    def adapt(cls, responses: list[ParsedResponse]) -> SpecDecodeAcceptanceRecord | DraftTotals | None:
        """Return the record that running totals make, else the totals; None where they are malformed."""
        objects = [s for each in responses if _is_ours(cls.signature, s := each.spec_decode_stats)]
        usage = last_usage(responses)
        try:
            totals = [_counts(each) for each in objects]
            if not totals:
                return None
            tokens = totals[-1].tokens if usage is None else usage.completion_tokens
            steps, hidden = steps_of(totals)
            # The end alone of a response of two tokens shows its one step, but then only such responses had records.
            if not steps or (not hidden and totals[0].tokens < totals[-1].tokens):
                return _record(steps, tokens)
            at_limit = any("length" in each.finish_reasons for each in responses)
            fewest, most = _bounds(totals, len(steps), hidden, at_limit=at_limit)
            return DraftTotals(
                engine=NAME,
                num_draft_tokens=totals[-1].proposed,
                num_accepted_draft_tokens=totals[-1].accepted,
                fewest_steps=fewest,
                most_steps=most,
                completion_tokens=tokens,
            )
        except ValueError:  # pydantic's ValidationError is one
            return None


class Step(NamedTuple):
    """Draft tokens of a verify step."""

    proposed: int
    accepted: int


class _Totals(NamedTuple):
    tokens: int
    proposed: int
    accepted: int


def steps_of(totals: Iterable[tuple[int, int, int]]) -> tuple[list[Step], int]:
    """Return the steps that running totals show, and how many more may hide behind tokens that brought none.

    `totals` are tokens, proposed and accepted so far. The prompt's own pass gives the first token. A step gives what it
    accepted and one token more, in a row: what is missing within it hides nothing. Raises `ValueError` where totals
    shrink, or grow as no step makes them.
    """
    steps: list[Step] = []
    token, proposed, accepted = 1, 0, 0
    step_ends, hidden = 1, 0
    for at, now_proposed, now_accepted in totals:
        step = Step(now_proposed - proposed, now_accepted - accepted)
        if at < token or not 0 <= step.accepted <= step.proposed:
            raise ValueError("totals that no step makes")
        if step.proposed:
            unseen = at - 1 - max(token, min(step_ends, at - 1))
            hidden += min(unseen, step.proposed - 1)
            steps.append(step)
            step_ends = at + step.accepted if not unseen else at
        token, proposed, accepted = at, now_proposed, now_accepted
    return steps, hidden


def _bounds(totals: Sequence[_Totals], seen: int, hidden: int, *, at_limit: bool) -> tuple[int, int]:
    # Each step gave a token that no draft is. The server drafts no more than a limit of tokens leaves room for, but
    # a stop cuts what the last step accepted.
    tokens, proposed, accepted = totals[-1]
    given = tokens - 1 - (accepted if at_limit else 0)
    return seen, max(seen, min(seen + hidden, proposed, given))


def _is_ours(signature: frozenset[str], stats: Any) -> bool:
    return isinstance(stats, dict) and signature <= stats.keys() and OTHERS.isdisjoint(stats)


def _counts(sent: dict[str, Any]) -> _Totals:
    found = _Totals(sent["predicted_n"], sent.get("draft_n", 0), sent.get("draft_n_accepted", 0))
    if any(type(count) is not int for count in found):
        raise ValueError("a count must be an integer")
    return found


def _record(steps: list[Step], tokens: int | None) -> SpecDecodeAcceptanceRecord:
    accepted, proposed = sum(step.accepted for step in steps), sum(step.proposed for step in steps)
    return SpecDecodeAcceptanceRecord(
        engine=NAME,
        mean_acceptance_length=1 + accepted / len(steps) if steps else 1.0,
        draft_acceptance_rate=accepted / proposed if proposed else 0.0,
        acceptance_histogram=dict(Counter(step.accepted for step in steps)),
        num_accepted_draft_tokens=accepted,
        num_draft_tokens=proposed,
        num_spec_steps=len(steps),
        completion_tokens=tokens,
        per_step_accepted=tuple(step.accepted for step in steps),
        per_step_drafted=tuple(step.proposed for step in steps),
    )
