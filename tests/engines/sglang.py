"""SGLang 0.5.23 on the CPU, as its example serves it, over the random model that this makes.

Its n-gram drafter learns from all that it serves, so the same request is not accepted alike twice: a record is held
against its own bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.engines.server import NO_DRAFTER, Engine, Setup, place

_VALUE = r"\{[^\n]*\} (\S+)$"
STEPS = re.compile(r"^sglang:spec_verify_calls_total" + _VALUE, re.M)
TOKENS = re.compile(r'^sglang:realtime_tokens_total\{[^\n]*mode="decode"[^\n]*\} (\S+)$', re.M)


def _place() -> dict[str, str]:
    return {"SGLANG_PYTHON": str(place("SPEC_PROFILE_SGLANG", "a Python with SGLang is"))}


def _arguments(setup: Setup) -> list[str]:
    if setup == NO_DRAFTER:
        return ["--log-level", "info"]  # without options the script drafts
    drafter = ["--speculative-algorithm", setup.drafter.upper(), "--speculative-num-draft-tokens", str(setup.k + 1)]
    return [*drafter, *setup.options]


def _counted(page: str) -> Counter[str]:
    steps, tokens = (round(sum(map(float, found.findall(page)))) for found in (STEPS, TOKENS))
    # A step emits its accepted drafts and one token more; on a CPU no step runs for a request that has ended.
    return Counter({"spec_decode_num_drafts": steps, "spec_decode_num_accepted_tokens": tokens - steps})


def _reasoning(_: Path) -> Setup:
    """Take all of an answer for reasoning: the parser waits for an end mark, which the model never writes."""
    return replace(SGLANG.setup, options=("--reasoning-parser", "deepseek-r1"))


def _tools(_: Path) -> Setup:
    """Hold a required call to its parameters: a parser with a format of its own does so only for `strict` functions."""
    return replace(
        SGLANG.setup, options=("--tool-call-parser", "pythonic", "--constrained-json-disable-any-whitespace")
    )


SGLANG = Engine(
    name="sglang",
    example="sglang_cpu",
    setup=Setup("ngram", 7),
    other_drafter=Setup("ngram", 3),
    place=_place,
    arguments=_arguments,
    counted=_counted,
    # Its gauge of running requests is set now and then: that its counters stand still has to do.
    idle=lambda _: True,
    still_seconds=3.0,
    inputs={"return_spec_tokens_details": True},
    uncounted=("spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens_per_pos"),
    times_itself=False,
    too_long="2048",
    reasoning=_reasoning,
    tools=_tools,
)
