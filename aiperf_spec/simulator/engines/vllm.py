"""Shape responses as vLLM 0.32 does with --per-request-spec-decode-metrics."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..call import Call, Endpoint, Event, Generation, Payload, Piece, requested_tokens
from ..drafter import Draw
from ..logprobs import logprobs
from .engine import Engine, RejectedError, json_invalid, usage_counts

FINGERPRINT = "vllm-0.32.0-simulated"


class VllmEngine(Engine):
    """Answer as vLLM: statistics under `metrics`, on the usage chunk when streaming."""

    owner = "vllm"
    id_formats: ClassVar[Mapping[Endpoint, str]] = {"chat": "chatcmpl-{:.16}", "completions": "cmpl-{:.16}"}

    def error(self, message: str, kind: str, status: int, param: str | None = None) -> Payload:
        """Shape an error body: wrapped in an `error` object."""
        return {"error": {"message": message, "type": kind, "param": param, "code": status}}

    def malformed(self, endpoint: Endpoint, position: int, reason: str) -> RejectedError:
        """Build the refusal of a body that is not JSON."""
        return RejectedError(400, self.error(f"[{json_invalid(position, reason)}]", "Bad Request", 400))

    def check(self, body: Mapping[str, Any], endpoint: Endpoint) -> None:
        """Raise RejectedError for an unknown model, a negative temperature or too many tokens."""
        model = body.get("model")
        if model is not None and model != self.config.model:
            message = f"The model `{model}` does not exist. Valid aliases: {self.config.model}."
            raise self.refuse(message, 404, "model")
        prompt_tokens = self.check_prompt(body, endpoint)
        temperature = self.temperature(body)
        if temperature < 0:
            problem = f"temperature must be non-negative, got {temperature}."
            raise self._refuse_value(problem, "temperature", temperature)
        requested, limit = requested_tokens(body, self.config), self.config.max_model_len
        if requested < 1:
            raise self._refuse_value(f"max_tokens must be at least 1, got {requested}.", "max_tokens", requested)
        if requested > limit:
            problem = f"max_tokens={requested} cannot be greater than max_model_len={limit}."
            advice = "Please request fewer output tokens."
            raise self._refuse_value(f"{problem} {advice}", "max_tokens", requested)
        if prompt_tokens >= limit:
            problem = f"This model's maximum context length is {limit} tokens."
            advice = f"However, your prompt has {prompt_tokens} tokens. Please reduce its length."
            raise self._refuse_value(f"{problem} {advice}", "input_tokens", prompt_tokens)

    def version(self) -> str:
        """Return the version whose formats are imitated."""
        return "0.32.0"

    def model_details(self) -> Payload:
        """Return what vLLM adds to a model card."""
        flags = ("create_engine", "sampling", "logprobs", "search_indices", "view", "fine_tuning")
        permission = {"id": "modelperm-simulated", "object": "model_permission", "created": self.started}
        permission |= {f"allow_{flag}": flag not in ("create_engine", "fine_tuning") for flag in flags}
        permission |= {"organization": "*", "group": None, "is_blocking": False}
        details = {"root": self.config.model, "parent": None, "max_model_len": self.config.max_model_len}
        return details | {"permission": [permission]}

    def sends_stats(self, call: Call) -> bool:
        """Say whether statistics are reported: for one sequence only, and only beside the usage."""
        single = len(call.generations) == 1
        reports = self.config.level != "none" and self.config.draft_length > 0
        return reports and single and (call.include_usage or not call.stream)

    def stats(self, draw: Draw, *, keep_null: bool) -> Payload:
        """Shape the statistics of one sequence; `keep_null` writes unknown arrays as null."""
        k, steps, accepted, drafted = self.config.draft_length, draw.steps, draw.num_accepted, draw.num_drafted
        payload = {
            "mean_acceptance_length": 1 + accepted / steps if steps else 1.0,
            "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
            "acceptance_histogram": draw.dense_histogram(k + 1),
            "num_spec_steps": steps,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafted,
            "num_spec_tokens": k,
        }
        if self.config.level == "detailed" and steps > 0:
            payload |= {"per_step_accepted": list(draw.accepted), "per_step_drafted": list(draw.drafted)}
        elif keep_null:
            payload |= {"per_step_accepted": None, "per_step_drafted": None}
        return payload

    def with_running_stats(self, payload: Payload, draw: Draw) -> Payload:
        """Return a chunk with the statistics so far."""
        return payload | {"metrics": {"speculative_decoding": self.stats(draw, keep_null=False)}}

    def stream(self, call: Call) -> Iterator[Event]:
        """Yield role openers (chat), content chunks, the last of each with a finish reason, usage."""
        head = self.head(call, call.generations[0].response_id, stream=True)
        running = self._running_usage if call.continuous_usage else lambda call, tokens: {}
        if call.endpoint == "chat":
            for generation in call.generations:
                delta = {"role": "assistant", "content": ""}
                choice = {"index": generation.index, "delta": delta, "logprobs": None, "finish_reason": None}
                opener = head | {"choices": [choice]} | running(call, 0)
                yield Event(opener | {"prompt_token_ids": None, "prompt_text": None}, 0)
        to_finish = len(call.generations)
        for piece in call.pieces():
            payload = head | {"choices": [self._chunk_choice(call, piece)]} | running(call, piece.tokens_so_far)
            to_finish -= piece.last
            if not to_finish and not call.include_usage:
                payload["system_fingerprint"] = FINGERPRINT
            yield Event(payload, piece.step, piece.generation.index)
        if call.include_usage:
            usage = usage_counts(call.prompt_tokens, call.completion_tokens)
            payload = head | {"choices": [], "usage": usage, "system_fingerprint": FINGERPRINT}
            if self.sends_stats(call):
                stats = self.stats(call.generations[0].draw, keep_null=False)
                payload["metrics"] = {"speculative_decoding": stats}
            yield Event(payload, call.last_step)

    def body(self, call: Call) -> Payload:
        """Shape a whole answer, unset fields as null."""
        usage = usage_counts(call.prompt_tokens, call.completion_tokens)
        payload = self.head(call, call.generations[0].response_id, stream=False) | {
            "choices": [self._choice(call, generation) for generation in call.generations],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": usage | {"prompt_tokens_details": None, "completion_tokens_details": None},
        }
        if call.endpoint == "chat":
            payload |= {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None}
        payload |= {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}
        if self.sends_stats(call):
            unset = (
                "time_to_first_token_ms",
                "generation_time_ms",
                "queue_time_ms",
                "mean_itl_ms",
                "tokens_per_second",
            )
            stats = self.stats(call.generations[0].draw, keep_null=True)
            payload["metrics"] = dict.fromkeys(unset) | {"speculative_decoding": stats}
        return payload

    def _refuse_value(self, message: str, param: str, value: float) -> RejectedError:
        return self.refuse(f"{message} (parameter={param}, value={value})", param=param)

    def _running_usage(self, call: Call, tokens: int) -> Payload:
        return {"usage": usage_counts(call.prompt_tokens, tokens) | {"completion_tokens_details": None}}

    def _chunk_choice(self, call: Call, piece: Piece) -> Payload:
        reason = piece.generation.draw.finish_reason if piece.last else None
        index = piece.generation.index
        tokens = piece.generation.draw.chunks[piece.step]
        listed = logprobs(call, piece.generation, piece.tokens_so_far - tokens, piece.tokens_so_far)
        if call.endpoint == "completions":
            choice = {"index": index, "text": piece.text, "logprobs": listed, "finish_reason": reason}
            return choice | {"stop_reason": None, "prompt_token_ids": None, "token_ids": None}
        delta = {"content": piece.text}
        choice = {"index": index, "delta": delta, "logprobs": listed, "finish_reason": reason}
        if piece.last:
            choice["stop_reason"] = None
        return choice | {"token_ids": None}

    def _choice(self, call: Call, generation: Generation) -> Payload:
        text, reason = generation.text(), generation.draw.finish_reason
        listed = logprobs(call, generation, 0, generation.draw.completion_tokens)
        ending = {"logprobs": listed, "finish_reason": reason, "stop_reason": None, "token_ids": None}
        if call.endpoint == "completions":
            ending |= {"prompt_logprobs": None, "prompt_token_ids": None, "routed_experts": None}
            return {"index": generation.index, "text": text} | ending
        unset = ("refusal", "annotations", "audio", "function_call", "reasoning")
        message = {"role": "assistant", "content": text} | dict.fromkeys(unset)
        return {"index": generation.index, "message": message} | ending | {"routed_experts": None}
