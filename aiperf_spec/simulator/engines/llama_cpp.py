"""Shape responses as llama-server b11434 does."""

import time
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, ClassVar

from ..call import Call, Endpoint, Event, Generation, Payload, Piece
from ..drafter import Draw
from .engine import Engine, RejectedError

FINGERPRINT = "b11434-simulated"


class LlamaCppEngine(Engine):
    """Answer as llama.cpp: totals under `timings` at the end, or so far with every token; no number of steps.

    Each token of a stream is a chunk of its own, and those of a step come together. Several choices end each by
    themselves, with a usage of their own.
    """

    owner = "llamacpp"
    id_formats: ClassVar[Mapping[Endpoint, str]] = {"chat": "chatcmpl-{:.32}", "completions": "chatcmpl-{:.32}"}
    settings_paths = ("/props", "/slots")

    def error(self, message: str, kind: str, status: int, param: str | None = None) -> Payload:
        """Shape an error body: wrapped in an `error` object, without the field's name."""
        return {"error": {"code": status, "message": message, "type": kind}}

    def malformed(self, endpoint: Endpoint, position: int, reason: str) -> RejectedError:
        """Build the refusal of a body that is not JSON."""
        return self.refuse(f"[json.exception.parse_error.101] parse error at position {position}: {reason}")

    def refuse(self, message: str, status: int = 400, param: str | None = None) -> RejectedError:
        """Build the refusal of a request."""
        return RejectedError(status, self.error(message, "invalid_request_error", status))

    def check(self, body: Mapping[str, Any], endpoint: Endpoint) -> None:
        """Raise RejectedError for a prompt beyond the context; any model and any limit will do."""
        prompt_tokens, limit = self.check_prompt(body, endpoint), self.config.max_model_len
        self.temperature(body)
        if prompt_tokens >= limit:
            message = f"request ({prompt_tokens} tokens) exceeds the available context size ({limit} tokens)"
            detail = {"code": 400, "message": f"{message}, try increasing it", "type": "exceed_context_size_error"}
            raise RejectedError(400, {"error": detail | {"n_prompt_tokens": prompt_tokens, "n_ctx": limit}})

    def model_details(self) -> Payload:
        """Return what llama.cpp adds to a model card."""
        return {"aliases": [self.config.model], "tags": [], "meta": {"n_ctx": self.config.max_model_len}}

    def settings(self, path: str) -> Payload | list[Payload]:
        """Shape the answers of GET /props, which does not say how the server drafts, and of /slots, which does."""
        if path == "/slots":
            drafts = self.config.draft_length > 0
            types = "none,draft-simple" if drafts else "none"
            params = {"speculative.types": types, "timings_per_token": False}
            slot = {"n_ctx": self.config.max_model_len, "speculative": drafts, "is_processing": False, "params": params}
            return [{"id": number} | slot for number in range(4)]
        params = {"speculative.types": "none", "timings_per_token": False}
        return {
            "default_generation_settings": {"params": params, "n_ctx": self.config.max_model_len},
            "total_slots": 4,
            "model_alias": self.config.model,
            "build_info": FINGERPRINT,
        }

    def sends_stats(self, call: Call) -> bool:
        """Say whether drafts are reported: whenever there were some."""
        return call.drafted

    def with_running_stats(self, payload: Payload, draw: Draw) -> Payload:
        """Return a chunk with the totals so far, which it may have already."""
        if "timings" in payload:
            return payload
        return payload | {
            "timings": self.timings(1, draw.steps, draw.completion_tokens, draw.num_drafted, draw.num_accepted)
        }

    def timings(self, prompt_tokens: int, step: int, tokens: int, drafted: int, accepted: int) -> Payload:
        """Shape the object with the engine's times and what was drafted by the end of a step."""
        # The engine has one request for itself; what the batch of others added is not in its own times.
        prompt_ms, predicted_ms = self.config.prefill_time_ms, self.config.step_ms(1) * step
        times = {
            "cache_n": 0,
            "prompt_n": prompt_tokens,
            "prompt_ms": prompt_ms,
            "prompt_per_token_ms": prompt_ms / prompt_tokens,
            "prompt_per_second": 1000 * prompt_tokens / prompt_ms if prompt_ms else 0.0,
            "predicted_n": tokens,
            "predicted_ms": predicted_ms,
            "predicted_per_token_ms": predicted_ms / (tokens - 1) if tokens > 1 else 0.0,
            "predicted_per_second": 1000 * (tokens - 1) / predicted_ms if predicted_ms else 0.0,
        }
        return times | ({"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {})

    def stream(self, call: Call) -> Iterator[Event]:
        """Yield a role opener (chat), a chunk a token, and the end of each choice as soon as it is there."""
        totals = [_totals(generation.draw) for generation in call.generations]
        per_token = call.body.get("timings_per_token") is True
        for piece in call.pieces():
            generation = piece.generation
            if call.endpoint == "chat" and not piece.step:
                yield Event(self._chunk(call, generation, {"role": "assistant", "content": None}), 0)
            drafted, accepted = totals[generation.index][piece.step]
            for token in range(piece.tokens_so_far - generation.draw.chunks[piece.step], piece.tokens_so_far):
                text = generation.text(token, token + 1)
                if text or call.endpoint == "completions":
                    payload = self._token(call, generation, text)
                    if per_token:
                        payload["timings"] = self.timings(call.prompt_tokens, piece.step, token + 1, drafted, accepted)
                    yield Event(payload, piece.step, generation.index)
            if piece.last:
                yield from self._end(call, piece, drafted, accepted)

    def body(self, call: Call) -> Payload:
        """Shape a whole answer: the first choice's own, with the others' choices beside it."""
        first = call.generations[0]
        choices = [self._choice(call, generation) for generation in call.generations]
        drafted, accepted = _totals(first.draw)[-1]
        tokens = first.draw.completion_tokens
        return self._head(call, first, stream=False) | {
            "choices": choices,
            "usage": self._usage(call, tokens),
            "timings": self.timings(call.prompt_tokens, first.draw.decode_steps, tokens, drafted, accepted),
        }

    def _end(self, call: Call, piece: Piece, drafted: int, accepted: int) -> Iterator[Event]:
        generation, tokens = piece.generation, piece.tokens_so_far
        usage = {"usage": self._usage(call, tokens)}
        timings = {"timings": self.timings(call.prompt_tokens, piece.step, tokens, drafted, accepted)}
        if call.endpoint == "completions":
            yield Event(self._token(call, generation, "", generation.draw.finish_reason) | usage | timings, piece.step)
            return
        finish = self._chunk(call, generation, {}, generation.draw.finish_reason)
        if not call.include_usage:
            yield Event(finish | timings, piece.step)
            return
        yield Event(finish, piece.step)
        yield Event(self._head(call, generation, stream=True) | {"choices": []} | usage | timings, piece.step)

    def _head(self, call: Call, generation: Generation, *, stream: bool) -> Payload:
        chat = "chat.completion.chunk" if stream else "chat.completion"
        return {
            "created": int(time.time()),
            "id": call.generations[0].response_id,
            "model": call.model,
            "system_fingerprint": FINGERPRINT,
            "object": chat if call.endpoint == "chat" else "text_completion",
        }

    def _chunk(self, call: Call, generation: Generation, delta: Payload, reason: str | None = None) -> Payload:
        choice = {"finish_reason": reason, "index": generation.index, "delta": delta}
        return {"choices": [choice]} | self._head(call, generation, stream=True)

    def _token(self, call: Call, generation: Generation, text: str, reason: str | None = None) -> Payload:
        if call.endpoint == "chat":
            return self._chunk(call, generation, {"content": text}, reason)
        choice = {"text": text, "index": generation.index, "logprobs": None, "finish_reason": reason}
        return {"choices": [choice]} | self._head(call, generation, stream=True)

    def _choice(self, call: Call, generation: Generation) -> Payload:
        text, reason = generation.text(), generation.draw.finish_reason
        if call.endpoint == "completions":
            return {"text": text, "index": generation.index, "logprobs": None, "finish_reason": reason}
        message = {"role": "assistant", "content": text}
        return {"finish_reason": reason, "index": generation.index, "message": message}

    def _usage(self, call: Call, tokens: int) -> Payload:
        return {
            "completion_tokens": tokens,
            "prompt_tokens": call.prompt_tokens,
            "total_tokens": call.prompt_tokens + tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }


def _totals(draw: Draw) -> list[tuple[int, int]]:
    """Return what was proposed and accepted by the end of each step, prefill first."""
    skipped, steps = set(draw.undrafted), iter(zip(draw.drafted, draw.accepted, strict=True))
    each = [(0, 0), *((0, 0) if step in skipped else next(steps) for step in range(1, len(draw.chunks)))]
    return list(accumulate(each, lambda sums, now: (sums[0] + now[0], sums[1] + now[1])))
