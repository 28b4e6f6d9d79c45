"""The forms in which other programs take a measured acceptance, to simulate it: one for each option that takes it.

Each docstring names the source and the version that were read.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from aiperf_spec.errors import SpecProfileError


class FormError(SpecProfileError):
    """Say that a form cannot hold what was measured."""


class Holds(StrEnum):
    """What a form holds of the acceptance: its length, or a rate for each position in the draft."""

    LENGTH = "length"
    RATES = "rates"
    """R(i): that the first i draft tokens are accepted, in drafts that have as many."""
    CONDITIONAL = "conditional"
    """c(i) = R(i) / R(i - 1): that token i is accepted where all before it are."""


@dataclass(slots=True, frozen=True)
class Measured:
    """The figures that forms take: positions from 1 to k; k is None, and rates are empty, where that is not known."""

    length: float
    k: int | None = None
    rates: tuple[float, ...] = ()
    conditional: tuple[float, ...] = ()


@dataclass(slots=True, frozen=True)
class AcceptanceForm:
    """A form by the name that `--to` gives it. Lines that begin with `comment` are not read by who takes it."""

    name: str
    taken_by: str
    holds: Holds
    write: Callable[[Measured], str]
    comment: str | None = "# "
    hint: str = ""
    """What is to be known by whoever uses it."""


def vllm_rates(measured: Measured) -> str:
    """Return vLLM's `synthetic_acceptance_rates` as JSON for `--speculative-config`.

    R(1..k), none above the one before, as many as `num_speculative_tokens`. Source: `vllm/config/speculative.py`,
    `SpeculativeConfig`, version 0.32.0.
    """
    rates = [_rounded(rate) for rate in measured.rates]
    return _json(
        {
            "num_speculative_tokens": len(rates),
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": rates,
        }
    )


def vllm_length(measured: Measured) -> str:
    """Return vLLM's `synthetic_acceptance_length` as JSON for `--speculative-config`.

    From 1 to k + 1; vLLM turns it into rates in which as many positions as possible are 1. Source: as `vllm_rates`.
    """
    k = {} if measured.k is None else {"num_speculative_tokens": measured.k}
    length = _rounded(measured.length)
    return _json({**k, "rejection_sample_method": "synthetic", "synthetic_acceptance_length": length})


def sglang_length(measured: Measured) -> str:
    """Return SGLang's environment: `SGLANG_SIMULATE_ACC_LEN`, which counts the bonus token.

    `match-expected` draws the whole numbers below and above it; `multinomial`, the default of earlier versions, draws
    around it and misses it. Source: `sglang/srt/environ.py` and `sglang/srt/speculative/spec_utils.py`, version 0.5.23.
    """
    length = _shown(measured.length)
    return f"SGLANG_SIMULATE_ACC_LEN={length}\nSGLANG_SIMULATE_ACC_METHOD=match-expected\n"


def tensorrt_llm_accepted(measured: Measured) -> str:
    """Return TensorRT-LLM's environment: `TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS`, the length less the bonus token.

    The fraction is the chance of one more. Raises `FormError` where it is 0, which turns it off. Source:
    `get_force_num_accepted_tokens_float` in `tensorrt_llm/_torch/speculative/interface.py`, main branch at
    00b6d5a25c30; fractions came with its pull request 13569.
    """
    accepted = _shown(measured.length - 1)
    if float(accepted) <= 0:
        raise FormError("the acceptance length is 1: TensorRT-LLM takes 0 accepted draft tokens for no setting at all")
    return f"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={accepted}\n"


_DYNAMO_MOST = 5


def dynamo_rates(measured: Measured) -> str:
    """Return the options of Dynamo's mocker: `--aic-nextn` and `--aic-nextn-accept-rates`, which are conditional.

    Raises `FormError` for more than the 5 draft tokens that it takes. Source: `lib/mocker/src/common/speculative.rs`
    of dynamo-mocker 1.3.0, and the help of `python -m dynamo.mocker`.
    """
    if len(measured.conditional) > _DYNAMO_MOST:
        raise FormError(
            f"Dynamo's mocker takes at most {_DYNAMO_MOST} draft tokens, and drafts had {len(measured.conditional)}",
            "measure with a shorter draft, or export the length to another program",
        )
    rates = ",".join(map(_shown, measured.conditional))
    return f"--aic-nextn {len(measured.conditional)} --aic-nextn-accept-rates {rates}\n"


def llama_cpp_rates(measured: Measured) -> str:
    """Return llama.cpp's `--spec-synth-rates`: R(1..k), as many as its draft length, none above the one before.

    Source: `common/arg.cpp` and `common_speculative_synth_rates_resolve` in `common/speculative.cpp`, b11434.
    """
    return f"--spec-synth-rates {','.join(map(_shown, measured.rates))}\n"


FORMS = {
    form.name: form
    for form in (
        AcceptanceForm(
            "vllm-rates",
            "vLLM",
            Holds.RATES,
            vllm_rates,
            comment=None,
            hint="add the keys to your --speculative-config; its num_speculative_tokens has to be the same",
        ),
        AcceptanceForm(
            "vllm-length",
            "vLLM",
            Holds.LENGTH,
            vllm_length,
            comment=None,
            hint="add the keys to your --speculative-config",
        ),
        AcceptanceForm(
            "sglang", "SGLang", Holds.LENGTH, sglang_length, hint="variables of the environment of its server"
        ),
        AcceptanceForm(
            "tensorrt-llm",
            "TensorRT-LLM",
            Holds.LENGTH,
            tensorrt_llm_accepted,
            hint="a variable of the environment of its server; with two models, and before its pull request 13569, it "
            "takes whole numbers only",
        ),
        AcceptanceForm("dynamo", "Dynamo's mocker", Holds.CONDITIONAL, dynamo_rates, hint="options of its command"),
        AcceptanceForm(
            "llama-cpp",
            "llama.cpp",
            Holds.RATES,
            llama_cpp_rates,
            hint="an option of llama-server, beside those of its drafter, whose length has to be the same",
        ),
    )
}


def _rounded(value: float) -> float:
    return round(value, 6)


def _shown(value: float) -> str:
    return f"{_rounded(value):.6f}".rstrip("0").rstrip(".")


def _json(document: dict[str, str | float | Sequence[float]]) -> str:
    return json.dumps(document) + "\n"
