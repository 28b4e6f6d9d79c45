"""Define what a simulated server can be told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

EngineName = Literal["vllm", "tensorrt_llm", "sglang", "llama_cpp"]
Level = Literal["none", "summary", "detailed"]
Outcome = Literal["ok", "error"]

ENGINES: tuple[EngineName, ...] = get_args(EngineName)

DEFAULT_SPEC_TOKENS: Mapping[str, int] = {"vllm": 5, "tensorrt_llm": 3, "sglang": 7, "llama_cpp": 5}

FAULT_OUTCOMES: Mapping[str, Outcome] = {
    "connection_refused": "error",
    "reset_before_headers": "error",
    "reset_mid_event": "error",
    "stall": "error",
    "slow_first_byte": "ok",
    "http_400_json": "error",
    "http_500_json": "error",
    "http_503_flat_json": "error",
    "http_502_html": "error",
    "http_500_empty": "error",
    "ok_with_error_object": "error",
    "truncated_json": "error",
    "wrong_content_type": "ok",
    "endless_line": "error",
    "duplicate_stats": "ok",
    "stats_on_every_chunk": "ok",
    "missing_usage": "ok",
    "gzip": "ok",
    "keepalive_comments": "ok",
    "crlf": "ok",
    "split_utf8": "ok",
}
FAULTS: tuple[str, ...] = tuple(FAULT_OUTCOMES)


@dataclass(frozen=True, slots=True)
class SimulatorConfig:
    """Hold the settings of one simulated server.

    `num_spec_tokens` of None takes the engine's default, 0 serves without speculation; `level` is vLLM's
    `--per-request-spec-decode-metrics`; `acceptance` overrides the probability, otherwise given by the
    category of the prompt, that a first draft token is accepted. `faults` are (name, share of requests)
    pairs. Raises ValueError for a value that no server could have.
    """

    engine: EngineName
    host: str = "127.0.0.1"
    port: int = 0
    model: str = "simulated-model"
    num_spec_tokens: int | None = None
    step_time_ms: float = 4.0
    draft_time_ms: float = 0.0
    """What each token of the draft length adds to a step."""
    batch_time_ms: float = 0.0
    """What each token that a step computes adds to it: every running request has the draft's and one more."""
    prefill_time_ms: float = 8.0
    seed: int = 0
    level: Level = "detailed"
    acceptance: float | None = None
    max_model_len: int = 8192
    default_max_tokens: int = 64
    stretch_tokens: int | None = None
    """Mean length of the stretches of easy and of hard text in an answer; None makes all its text equally hard."""
    undrafted_share: float = 0.0
    """Share of the steps in which the drafter finds nothing, as an n-gram drafter often does."""
    data_parallel: int = 1
    """Engines behind the server, each with counters of its own."""
    changed_answers: float = 0.0
    """Share of the prompts whose answers are other ones from some token on, as those of a wrong drafter may be."""
    near_ties: float = 0.0
    """Share of the prompts at whose place of change both tokens are nearly as likely: 1/16 nat apart."""
    faults: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        for name, choices in (("engine", ENGINES), ("level", get_args(Level))):
            if getattr(self, name) not in choices:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}: choose one of {', '.join(choices)}")
        shares = ("acceptance", "undrafted_share", "changed_answers", "near_ties")
        for name, most in {**dict.fromkeys(shares, 1), "port": 65535}.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value <= most:
                raise ValueError(f"{name} must lie in 0..{most}, got {value}")
        for name in ("step_time_ms", "draft_time_ms", "batch_time_ms", "prefill_time_ms"):
            if not 0.0 <= getattr(self, name) < 1e9:
                raise ValueError(f"{name} must be a non-negative number, got {getattr(self, name)}")
        least = dict.fromkeys(("max_model_len", "default_max_tokens", "stretch_tokens", "data_parallel"), 1)
        for name, bound in {"num_spec_tokens": 0, **least}.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ValueError(f"{name} must be at least {bound}, got {value}")
        for fault, share in self.faults:
            if fault not in FAULT_OUTCOMES:
                raise ValueError(f"unknown fault {fault!r}: choose among {', '.join(FAULTS)}")
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"the share of fault {fault!r} must lie in 0..1, got {share}")
        if sum(share for _, share in self.faults) > 1.0 + 1e-9:
            raise ValueError("the shares of all faults together exceed 1")

    @property
    def draft_length(self) -> int:
        """Return k, the number of tokens drafted in a full verify step; 0 without speculation."""
        return DEFAULT_SPEC_TOKENS[self.engine] if self.num_spec_tokens is None else self.num_spec_tokens

    def step_ms(self, running: int) -> float:
        """Return the time of one step over so many running requests: a part of its own, drafting, and the batch."""
        k = self.draft_length
        return self.step_time_ms + self.draft_time_ms * k + self.batch_time_ms * running * (k + 1)

    def to_json(self) -> str:
        """Return the settings as one JSON object that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SimulatorConfig:
        """Build a configuration from a JSON object of its fields; raise ValueError for anything else."""
        values: Any = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("the configuration must be a JSON object")
        unknown = values.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown settings: {', '.join(sorted(unknown))}")
        if "engine" not in values:
            raise ValueError("the configuration names no engine")
        faults = tuple((str(name), float(share)) for name, share in values.pop("faults", ()))
        return cls(**values, faults=faults)
