"""vLLM 0.32.0 on the CPU, as its example serves it, over the model that SPEC_PROFILE_MODELS holds."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.engines.server import NO_DRAFTER, Engine, Setup, counters_of, place

TRAINED = "tinycode"
DETAILED = ("--per-request-spec-decode-metrics", "detailed")
BUSY = re.compile(r"^vllm:num_requests_running\{.*\} [^0\n].*$", re.M)


def _place() -> dict[str, str]:
    python = place("SPEC_PROFILE_VLLM", "a Python with vLLM is")
    models = place("SPEC_PROFILE_MODELS", f"the folder with the model {TRAINED!r} is", TRAINED)
    return {"VLLM_PYTHON": str(python), "MODEL": str(models / TRAINED)}


def _arguments(setup: Setup) -> list[str]:
    served = ["--max-num-seqs", "64"]
    if setup.drafter == NO_DRAFTER.drafter:
        return [*served, *setup.options]
    drafter: dict[str, Any] = {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 4}
    if setup.drafter != "ngram":
        model = _place()["MODEL"] + "-draft" if setup.drafter == "draft" else setup.drafter
        drafter = {"method": "draft_model", "model": model}
    config = json.dumps({**drafter, "num_speculative_tokens": setup.k})
    return [*served, "--speculative-config", config, *setup.options]


def _reasoning(folder: Path) -> Setup:
    """Give the model's vocabulary the marks of reasoning, which it never writes: all of its answer is reasoning."""
    model = folder / "reasoning"
    shutil.copytree(_place()["MODEL"], model, copy_function=shutil.copyfile)
    model.chmod(0o755)
    file = model / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    used = max(*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"]))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer["added_tokens"] += [
        {"id": used + at, "content": mark, **flags, "special": True}
        for at, mark in enumerate(("<think>", "</think>"), 1)
    ]
    file.write_text(json.dumps(tokenizer))
    return replace(
        VLLM.setup, options=(*VLLM.setup.options, "--model", str(model), "--reasoning-parser", "deepseek_r1")
    )


def _tools(_: Path) -> Setup:
    # A parser that needs no mark in the vocabulary; what a request requires is JSON with any. With blanks allowed, the
    # model writes nothing else.
    grammar = json.dumps({"backend": "xgrammar", "disable_any_whitespace": True})
    parser = ("--enable-auto-tool-choice", "--tool-call-parser", "pythonic", "--structured-outputs-config", grammar)
    return replace(VLLM.setup, options=(*VLLM.setup.options, *parser))


VLLM = Engine(
    name="vllm",
    example="vllm_cpu",
    setup=Setup("ngram", 5, (*DETAILED, "--enable-per-request-metrics")),
    other_drafter=Setup("draft", 3, (*DETAILED, "--enable-force-include-usage")),
    place=_place,
    arguments=_arguments,
    counted=lambda page: counters_of(page, "vllm:"),
    idle=lambda page: not BUSY.search(page),
    stopped_report=False,
    too_long="2048",
    what_if_error={"draft": 0.01, "ngram": 0.07},
    reasoning=_reasoning,
    tools=_tools,
)
