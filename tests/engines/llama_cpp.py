"""llama.cpp b11434 and the tiny models of its example, in the folder that SPEC_PROFILE_LLAMA_CPP names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tests.engines.server import NO_DRAFTER, Engine, Setup, counters_of, place


def _place() -> dict[str, str]:
    folder = place("SPEC_PROFILE_LLAMA_CPP", "the folder with llama-server is", "llama-server")
    return {"LLAMA_SERVER": str(folder / "llama-server"), "FOLDER": str(folder)}


def _arguments(setup: Setup) -> list[str]:
    if setup == NO_DRAFTER:
        return ["--spec-type", "none"]
    k = str(setup.k)
    options = ["--spec-draft-n-max", k, "--spec-type"]
    if setup.drafter == "draft":
        return [*options, "draft-simple", "--model-draft", "draft.gguf", *setup.options]
    sizes = ["--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", k]
    return [*options, "ngram-simple", *sizes, *setup.options]


REASONS = """{% for message in messages %}{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>
{% endif %}{{ message.content }}
{% endfor %}{% if add_generation_prompt %}<think>
{% endif %}"""
"""A template that opens the reasoning, which the model never closes: all of its answer is reasoning."""


CALLS = """{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% for message in messages %}{{ message.role }}: {{ message.content }}{% for call in message.tool_calls %}\
>>>{{ call.function.name }}
{{ call.function.arguments | tojson }}{% endfor %}
{% endfor %}{% if add_generation_prompt %}assistant: >>>{% endif %}"""
"""A template after whose opening nothing but a call can follow: with others the grammar lets text come first."""


def _tools(folder: Path) -> Setup:
    file = folder / "calls.jinja"
    file.write_text(CALLS)
    return replace(LLAMA_CPP.setup, options=("--chat-template-file", str(file)))


def _reasoning(folder: Path) -> Setup:
    file = folder / "reasons.jinja"
    file.write_text(REASONS)
    return replace(LLAMA_CPP.setup, options=("--chat-template-file", str(file)))


LLAMA_CPP = Engine(
    name="llama_cpp",
    example="llama_cpp",
    setup=Setup("draft", 5),
    other_drafter=Setup("ngram", 5),
    place=_place,
    arguments=_arguments,
    counted=lambda page: counters_of(page, "llamacpp:"),
    idle=lambda page: re.search(r"^llamacpp:requests_(processing|deferred) [^0\n]", page, re.M) is None,
    inputs={"timings_per_token": True},
    bodies_report=False,
    too_long="context",
    # The n-gram drafter takes the last match that as many tokens follow as it is to draft: with fewer, another match.
    what_if_error={"draft": 0.01, "ngram": 0.07},
    shortest_draft={"ngram": 3},
    reasoning=_reasoning,
    tools=_tools,
)
