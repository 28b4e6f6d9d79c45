"""Shape responses as TensorRT-LLM documents per-request speculative decoding statistics."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..call import Call, Endpoint, Event, Generation, Payload, Piece, requested_tokens
from ..drafter import Draw
from .engine import Engine, RejectedError, json_invalid, usage_counts


class TensorrtLlmEngine(Engine):
    """Answer as TensorRT-LLM: statistics on the choice, on its terminal chunk when streaming."""

    owner = "tensorrt_llm"
    id_formats: ClassVar[Mapping[Endpoint, str]] = {"chat": "chatcmpl-{:.32}", "completions": "cmpl-{:.32}"}

    def malformed(self, endpoint: Endpoint, position: int, reason: str) -> RejectedError:
        """Build the refusal of a body that is not JSON."""
        return self.refuse(f"[{json_invalid(position, reason)}]")

    def check(self, body: Mapping[str, Any], endpoint: Endpoint) -> None:
        """Raise RejectedError for values out of range; any model will do."""
        prompt_tokens = self.check_prompt(body, endpoint)
        temperature = self.temperature(body)
        if temperature < 0:
            raise self.refuse(f"require temperature >= 0, got temperature={temperature}")
        requested, limit = requested_tokens(body, self.config), self.config.max_model_len
        if requested < 1:
            raise self.refuse(f"max_tokens must be at least 1, got {requested}")
        if prompt_tokens + requested > limit:
            asked = f"prompt length ({prompt_tokens}) and max_tokens ({requested})"
            raise self.refuse(f"The sum of {asked} must not exceed max_seq_len ({limit})")

    def sends_stats(self, call: Call) -> bool:
        """Say whether statistics are reported: whenever some choice verified a draft."""
        return call.drafted

    def stats(self, draw: Draw) -> Payload:
        """Shape the statistics of one sequence."""
        k = self.config.draft_length
        return {
            "acceptance_rate": draw.num_accepted / draw.num_drafted,
            "total_accepted_draft_tokens": draw.num_accepted,
            "total_draft_tokens": draw.num_drafted,
            "num_spec_steps": draw.steps,
            "acceptance_histogram": draw.dense_histogram(k + 1),
            "num_spec_tokens": k,
        }

    def with_running_stats(self, payload: Payload, draw: Draw) -> Payload:
        """Return a chunk with the statistics so far, unchanged before the first verify step."""
        if not draw.steps:
            return payload
        choice = payload["choices"][0] | {"speculative_decoding": self.stats(draw)}
        return payload | {"choices": [choice]}

    def stream(self, call: Call) -> Iterator[Event]:
        """Yield role openers (chat), content chunks, the last of a choice with its statistics, then usage."""
        head = self.head(call, call.generations[0].response_id, stream=True)
        if call.endpoint == "chat":
            for generation in call.generations:
                yield Event(head | {"choices": [_chat_choice(generation, "", None)]}, 0)
        for piece in call.pieces():
            payload = head | {"choices": [self._chunk_choice(call, piece)]}
            if call.continuous_usage:
                payload["usage"] = usage_counts(call.prompt_tokens, piece.tokens_so_far)
            yield Event(payload, piece.step, piece.generation.index)
        if call.include_usage:
            usage = usage_counts(call.prompt_tokens, call.completion_tokens)
            yield Event(head | {"choices": [], "usage": usage}, call.last_step)

    def body(self, call: Call) -> Payload:
        """Shape a whole answer."""
        payload = self.head(call, call.generations[0].response_id, stream=False) | {
            "choices": [self._choice(call, generation) for generation in call.generations],
            "usage": usage_counts(call.prompt_tokens, call.completion_tokens),
        }
        return payload | ({"prompt_token_ids": None} if call.endpoint == "chat" else {})

    def _drafting(self, draw: Draw) -> Payload:
        return {"speculative_decoding": self.stats(draw)} if draw.steps else {}

    def _chunk_choice(self, call: Call, piece: Piece) -> Payload:
        generation, draw = piece.generation, piece.generation.draw
        reason = draw.finish_reason if piece.last else None
        if call.endpoint == "completions":
            choice = {"index": generation.index, "text": piece.text, "finish_reason": reason}
        else:
            choice = _chat_choice(generation, piece.text, reason)
            if piece.last:
                choice |= _tokens_per_iteration(draw)
        return choice | (self._drafting(draw) if piece.last else {})

    def _choice(self, call: Call, generation: Generation) -> Payload:
        text, draw = generation.text(), generation.draw
        if call.endpoint == "completions":
            choice = {"index": generation.index, "text": text, "token_ids": None}
        else:
            message: Payload = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": []}
            choice = {"index": generation.index, "message": message}
        choice |= {"logprobs": None, "finish_reason": draw.finish_reason, "stop_reason": None}
        return choice | _tokens_per_iteration(draw) | self._drafting(draw)


def _chat_choice(generation: Generation, text: str, reason: str | None) -> Payload:
    delta = {"role": "assistant", "content": text}
    choice = {"index": generation.index, "delta": delta, "logprobs": None}
    return choice | {"finish_reason": reason, "stop_reason": None}


def _tokens_per_iteration(draw: Draw) -> Payload:
    # Iterations are the prefill and the verify steps; it is not the acceptance length.
    return {"avg_decoded_tokens_per_iter": draw.completion_tokens / len(draw.chunks)}
