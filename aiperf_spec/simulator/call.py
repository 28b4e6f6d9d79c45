"""Read a request body into what is to be generated for it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import orjson

from .config import SimulatorConfig
from .drafter import Draw, digest, draw_sequence, uniform
from .text import CATEGORY_ACCEPTANCE, count_tokens, guess_category, token_text

Endpoint = Literal["chat", "completions"]
Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Generation:
    """Hold one sequence of a response: its choice index, what was drawn, and the seed of its text."""

    index: int
    response_id: str
    category: str
    draw: Draw
    seed: int
    parts_at: int | None = None
    """The token at which its wrong answer parts from the right one; None where its text has no token."""
    changed: bool = False
    """Whether it has the wrong answer."""
    near_tie: bool = False
    """Whether the two tokens at that place are nearly as likely."""

    @property
    def changed_at(self) -> int | None:
        """The number of characters up to which its text is that of the right answer; None where all of it is."""
        if self.parts_at is None or not self.changed:
            return None
        # A changed token keeps the blank in front of its word.
        return len(self.text(0, self.parts_at)) + bool(self.parts_at)

    def text(self, start: int = 0, end: int | None = None) -> str:
        """Return the text of the tokens from `start` up to `end`, or of the whole sequence."""
        return "".join(self.tokens(start, end))

    def tokens(self, start: int = 0, end: int | None = None, *, swapped: bool = False) -> list[str]:
        """Return the tokens of a text; `swapped` gives the wrong answer's for the right ones, and the reverse."""
        last = self.draw.completion_tokens
        # The end-of-sequence token counts in the usage and shows in no text, as on the real engines.
        visible = min(last if end is None else end, last - (self.draw.finish_reason == "stop"))
        wrong = self.parts_at if self.changed and self.parts_at is not None else visible
        return [token_text(self.category, self.seed, i, changed=(i >= wrong) != swapped) for i in range(start, visible)]


class Piece(NamedTuple):
    """Hold what one engine step gives one choice."""

    generation: Generation
    step: int
    text: str
    tokens_so_far: int
    last: bool


class Event(NamedTuple):
    """Hold a payload to send and the engine step, 0 being prefill, after which it is due.

    `choice` is the choice whose progress the payload tells, None for what belongs to the response.
    """

    payload: Payload
    step: int
    choice: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Hold a valid request and everything that will be answered to it."""

    endpoint: Endpoint
    model: str
    stream: bool
    include_usage: bool
    continuous_usage: bool
    n: int
    prompt_tokens: int
    generations: tuple[Generation, ...]
    body: Mapping[str, Any]

    @property
    def completion_tokens(self) -> int:
        """Return the tokens of all choices together."""
        return sum(generation.draw.completion_tokens for generation in self.generations)

    @property
    def last_step(self) -> int:
        """Return the number of engine steps, after prefill, until every choice has ended."""
        return max(generation.draw.decode_steps for generation in self.generations)

    @property
    def drafted(self) -> bool:
        """Say whether any choice verified a draft."""
        return any(generation.draw.steps for generation in self.generations)

    def pieces(self) -> Iterator[Piece]:
        """Yield the chunks of all choices in the order of time: the choices of a step side by side."""
        ends = [list(accumulate(generation.draw.chunks)) for generation in self.generations]
        for step in range(self.last_step + 1):
            for generation, reached in zip(self.generations, ends, strict=True):
                if step < len(reached):
                    text = generation.text(reached[step - 1] if step else 0, reached[step])
                    yield Piece(generation, step, text, reached[step], last=step == len(reached) - 1)


def prompt_texts(body: Mapping[str, Any], endpoint: Endpoint) -> list[str] | None:
    """Return the prompts of a body as text, None when it has none that an engine would take."""
    if endpoint == "chat":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            return None
        if not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages):
            return None
        spoken = [m for m in messages if m["role"] == "user"] or messages
        return ["\n".join(_content_text(m.get("content")) for m in spoken)]
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and prompt:
        if all(isinstance(item, int) for item in prompt):
            return [" ".join(map(str, prompt))]
        if all(isinstance(item, str) for item in prompt):
            return prompt
        if all(isinstance(item, list) and all(isinstance(i, int) for i in item) for item in prompt):
            return [" ".join(map(str, item)) for item in prompt]
    return None


def prompt_token_count(body: Mapping[str, Any], endpoint: Endpoint) -> int:
    """Count the tokens of all prompts of a valid body, a chat template's own included."""
    if endpoint == "chat":
        return 3 + sum(4 + count_tokens(_content_text(m.get("content"))) for m in body["messages"])
    return sum(map(count_tokens, prompt_texts(body, endpoint) or ()))


def requested_tokens(body: Mapping[str, Any], config: SimulatorConfig) -> int:
    """Return the limit that a body sets on the output, or the default."""
    for key in ("max_completion_tokens", "max_tokens"):
        if (value := body.get(key)) is not None:
            return int(value)
    return config.default_max_tokens


def read_call(
    body: Mapping[str, Any], endpoint: Endpoint, config: SimulatorConfig, sequence: int, id_format: str
) -> Call:
    """Draw the answer to a body that the engine has accepted.

    The draws depend on the seed, the model's name, the prompt and the place of the choice among the `n`
    of its prompt, on nothing else; the ids of the response on the arrival number as well.
    """
    model = body.get("model")
    model = model if isinstance(model, str) else config.model
    prompts = prompt_texts(body, endpoint) or [""]
    keys = [orjson.dumps(body["messages"], option=orjson.OPT_SORT_KEYS)] if endpoint == "chat" else prompts
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    n = int(body.get("n") or 1)
    prompt_tokens = prompt_token_count(body, endpoint)
    room = config.max_model_len - prompt_tokens // len(prompts)
    generations: list[Generation] = []
    for prompt, key in zip(prompts, keys, strict=True):
        category = guess_category(prompt)
        base = CATEGORY_ACCEPTANCE[category] if config.acceptance is None else config.acceptance
        for choice in range(n):
            seed = digest(config.seed, model, key, choice)
            draw = draw_sequence(
                seed,
                first_acceptance=base,
                draft_length=config.draft_length,
                max_tokens=min(requested_tokens(body, config), room),
                min_tokens=int(body.get("min_tokens") or 0),
                ignore_eos=bool(body.get("ignore_eos")),
                # Only the n-gram drafter captured from vLLM proposed fewer tokens than it may.
                short_drafts=config.engine == "vllm",
                stretch_tokens=config.stretch_tokens,
                undrafted_share=config.undrafted_share,
                # SGLang proposes as many in every step, and TensorRT-LLM's n-gram worker fills up with zeros.
                pads_drafts=config.engine in ("sglang", "tensorrt_llm"),
                # llama.cpp drafts no more than may still be sent, beside the token that each step gives.
                drafts_to_limit=config.engine == "llama_cpp",
            )
            index = len(generations)
            response_id = id_format.format(f"{digest('id', config.seed, sequence, index):032x}")
            generations.append(
                Generation(
                    index,
                    response_id,
                    category,
                    draw,
                    seed,
                    parts_at=_parts_at(seed, draw),
                    changed=uniform("changed", seed) < config.changed_answers,
                    near_tie=uniform("near-tie", seed) < config.near_ties,
                )
            )
    return Call(
        endpoint=endpoint,
        model=model,
        stream=bool(body.get("stream")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")),
        n=n,
        prompt_tokens=prompt_tokens,
        generations=tuple(generations),
        body=body,
    )


def _parts_at(seed: int, draw: Draw) -> int | None:
    visible = draw.completion_tokens - (draw.finish_reason == "stop")
    return int(uniform("changed from", seed) * visible) if visible else None


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            str(part.get("text", "")) for part in content if isinstance(part, dict) and part.get("type") == "text"
        )
    return ""
