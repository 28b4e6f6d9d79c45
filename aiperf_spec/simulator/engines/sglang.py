"""Shape responses as SGLang 0.5.23 does with return_spec_tokens_details."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..call import Call, Endpoint, Event, Generation, Payload, Piece, requested_tokens
from ..drafter import Draw
from .engine import Engine, RejectedError, json_invalid, usage_counts

FLAG = "return_spec_tokens_details"
# What pydantic's lenient boolean takes, which is how SGLang reads the flag.
_BOOLEANS = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True)
_BOOLEANS |= dict.fromkeys(("0", "off", "f", "false", "n", "no"), False)
_EOS_TOKEN = 2


class SglangEngine(Engine):
    """Answer as SGLang: statistics under `sglext`, in a chunk of their own when streaming."""

    owner = "sglang"
    id_formats: ClassVar[Mapping[Endpoint, str]] = {"chat": "{:.32}", "completions": "{:.32}"}
    trailer_after_error = True

    def malformed(self, endpoint: Endpoint, position: int, reason: str) -> RejectedError:
        """Build the refusal of a body that is not JSON."""
        return self._invalid(endpoint, json_invalid(position, reason))

    def check(self, body: Mapping[str, Any], endpoint: Endpoint) -> None:
        """Raise RejectedError for a flag that is no boolean or a value out of range; any model will do."""
        flag = body.get(FLAG, False)
        if _lenient_bool(flag) is None:
            message = "Input should be a valid boolean"
            kind = "bool_type"
            if isinstance(flag, str | int | float):
                kind, message = "bool_parsing", f"{message}, unable to interpret input"
            raise self._invalid(endpoint, {"type": kind, "loc": ("body", FLAG), "msg": message, "input": flag})
        prompt_tokens = self.check_prompt(body, endpoint)
        requested, limit = requested_tokens(body, self.config), self.config.max_model_len
        if requested < 0:
            if endpoint == "completions":
                reason = "max_tokens must be positive"
                detail = {"type": "value_error", "loc": ("body", "max_tokens"), "msg": f"Value error, {reason}"}
                raise self._invalid(endpoint, detail | {"input": requested, "ctx": {"error": ValueError(reason)}})
            raise self.refuse(f"max_new_tokens must be at least 0, got {requested}.")
        temperature = self.temperature(body)
        if temperature < 0:
            raise self.refuse(f"temperature must be a non-negative finite number, got {temperature}.")
        if prompt_tokens >= limit:
            problem = f"The input ({prompt_tokens} tokens) is longer than"
            raise self.refuse(f"{problem} the model's context length ({limit} tokens).")
        if prompt_tokens + requested > limit:
            total = prompt_tokens + requested
            problem = f"Requested token count exceeds the model's maximum context length of {limit} tokens."
            shares = f"{total} tokens: {prompt_tokens} of the input and {requested} for the completion."
            raise self.refuse(f"{problem} You requested a total of {shares}")

    def model_details(self) -> Payload:
        """Return what SGLang adds to a model card."""
        return {"root": self.config.model, "parent": None, "max_model_len": self.config.max_model_len}

    def settings(self, path: str) -> Payload:
        """Return what SGLang says of its drafter: a chain of draft tokens, or that there is none."""
        k = self.config.draft_length
        return {
            "model_path": self.config.model,
            "speculative_algorithm": "EAGLE3" if k else None,
            "speculative_num_steps": k or None,
            "speculative_eagle_topk": 1 if k else None,
            "speculative_num_draft_tokens": k + 1 if k else None,
            "speculative_adaptive": False,
            "disable_overlap_schedule": True,
            "version": "0.5.23",
        }

    def sends_stats(self, call: Call) -> bool:
        """Say whether statistics are reported: when asked for, and when some choice verified a draft."""
        return _lenient_bool(call.body.get(FLAG, False)) is True and call.drafted

    def stats(self, draw: Draw) -> Payload:
        """Shape the details of one sequence."""
        return {
            "spec_accept_rate": draw.num_accepted / draw.num_drafted,
            "spec_accept_length": draw.completion_tokens / draw.steps,
            "spec_cap_length": 0.0,
            "spec_block_accept_length": 0.0,
            "spec_num_correct_drafts": draw.num_accepted,
            "spec_num_proposed_drafts": draw.num_drafted,
            "spec_verify_ct": draw.steps,
            "spec_correct_drafts_histogram": draw.dense_histogram(0),
            "spec_cap_lens_histogram": [],
        }

    def with_running_stats(self, payload: Payload, draw: Draw) -> Payload:
        """Return a chunk with the details so far, unchanged before the first verify step."""
        if not draw.steps:
            return payload
        return payload | {"sglext": {"spec_tokens_details": self.stats(draw)}}

    def stream(self, call: Call) -> Iterator[Event]:
        """Yield content, finish chunks (chat), the statistics, the usage: each in a chunk of its own."""
        chat = call.endpoint == "chat"
        last_id = ""
        finished: list[Generation] = []
        for piece in call.pieces():
            generation = piece.generation
            last_id = generation.response_id
            if chat and piece.step == 0:
                delta = {"reasoning_content": None, "role": "assistant", "content": ""}
                yield Event(self.head(call, last_id, stream=True) | {"choices": [_chat_choice(generation, delta)]}, 0)
            # A chunk that would carry the end-of-sequence token alone has no content on chat.
            if piece.text or not chat:
                yield Event(self._content(call, piece), piece.step, generation.index)
            if piece.last:
                finished.append(generation)
        step = call.last_step
        # The finish chunks of all choices, and what follows, go under the id of the last content.
        head = self.head(call, last_id, stream=True)
        if chat:
            for generation in finished:
                choice = _chat_choice(generation, {"reasoning_content": None}, ended=True)
                yield Event(head | {"choices": [choice]}, step)
        if self.sends_stats(call):
            yield Event(head | {"choices": [], "usage": None, "sglext": self._sglext(call)}, step)
        if call.include_usage:
            usage = self._usage(call, call.completion_tokens)
            if not chat:
                usage = usage_counts(call.prompt_tokens, call.completion_tokens) | {"reasoning_tokens": 0}
            yield Event(head | {"choices": [], "usage": usage}, step)

    def body(self, call: Call) -> Payload:
        """Shape a whole answer; `sglext` is its last key, where there is one."""
        weights = {"version": "default", "start": 0, "end": call.generations[0].draw.completion_tokens}
        payload = self.head(call, call.generations[0].response_id, stream=False) | {
            "choices": [self._choice(call, generation) for generation in call.generations],
            "usage": self._usage(call, call.completion_tokens),
            "metadata": {"weight_version": "default", "weight_versions": [weights]},
        }
        if self.sends_stats(call):
            payload["sglext"] = self._sglext(call)
        return payload

    def _sglext(self, call: Call) -> Payload:
        # A choice that never verified is missing from the list, its index with it; several prompts with
        # one choice each report the first that has any. Both as captured.
        details = [self.stats(generation.draw) for generation in call.generations if generation.draw.steps]
        return {"spec_tokens_details": details if call.n > 1 else details[0]}

    def _usage(self, call: Call, tokens: int) -> Payload:
        details = {"prompt_tokens_details": None, "reasoning_tokens": 0, "completion_tokens_details": None}
        return usage_counts(call.prompt_tokens, tokens) | details

    def _content(self, call: Call, piece: Piece) -> Payload:
        generation = piece.generation
        head = self.head(call, generation.response_id, stream=True)
        usage = self._usage(call, piece.tokens_so_far) if call.continuous_usage else None
        if call.endpoint == "completions":
            choice = {"index": generation.index, "text": piece.text, "logprobs": None}
            choice |= _ending(generation, ended=piece.last)
            return head | {"choices": [choice], "usage": usage}
        delta = {"reasoning_content": None, "content": piece.text}
        return head | {"choices": [_chat_choice(generation, delta)]} | ({"usage": usage} if usage else {})

    def _choice(self, call: Call, generation: Generation) -> Payload:
        answer: Payload = {"text": generation.text()}
        if call.endpoint == "chat":
            answer = {"message": {"role": "assistant", "content": answer["text"], "reasoning_content": None}}
        return {"index": generation.index} | answer | {"logprobs": None} | _ending(generation, ended=True)

    def _invalid(self, endpoint: Endpoint, detail: Payload) -> RejectedError:
        chat = endpoint == "chat"
        handler = "line 1870, in openai_v1_chat_completions" if chat else "line 1860, in openai_v1_completions"
        path = "/v1/chat/completions" if chat else "/v1/completions"
        where = f'File "/site-packages/sglang/srt/entrypoints/http_server.py", {handler}'
        message = f"1 validation error:\n  {detail}\n\n  {where}\n    POST {path} [{detail}]"
        return RejectedError(400, self.error(message, "Bad Request", 400))


def _lenient_bool(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _BOOLEANS.get(value.lower())
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    return None


def _ending(generation: Generation, *, ended: bool) -> Payload:
    reason = generation.draw.finish_reason if ended else None
    return {"finish_reason": reason, "matched_stop": _EOS_TOKEN if reason == "stop" else None}


def _chat_choice(generation: Generation, delta: Payload, *, ended: bool = False) -> Payload:
    choice: Payload = {"index": generation.index, "delta": delta, "logprobs": None}
    return choice | _ending(generation, ended=ended)
