"""The forms in which other programs take a measured acceptance."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_spec.adapters.acceptance_forms import FORMS, FormError, Holds, Measured

MEASURED = Measured(2.5, 3, (0.8, 2 / 3, 0.1), (0.8, 5 / 6, 0.15))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "vllm-rates",
            '{"num_speculative_tokens": 3, "rejection_sample_method": "synthetic", '
            '"synthetic_acceptance_rates": [0.8, 0.666667, 0.1]}',
        ),
        (
            "vllm-length",
            '{"num_speculative_tokens": 3, "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5}',
        ),
        ("sglang", "SGLANG_SIMULATE_ACC_LEN=2.5\nSGLANG_SIMULATE_ACC_METHOD=match-expected"),
        ("tensorrt-llm", "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=1.5"),
        ("dynamo", "--aic-nextn 3 --aic-nextn-accept-rates 0.8,0.833333,0.15"),
        ("llama-cpp", "--spec-synth-rates 0.8,0.666667,0.1"),
    ],
)
def test_a_form(name: str, text: str) -> None:
    assert FORMS[name].write(MEASURED) == text + "\n"


def test_a_length_without_k_names_none() -> None:
    assert "num_speculative_tokens" not in FORMS["vllm-length"].write(Measured(2.5))


def test_what_a_form_cannot_hold() -> None:
    with pytest.raises(FormError, match="takes at most 5 draft tokens, and drafts had 6"):
        FORMS["dynamo"].write(Measured(2, 6, (0.1,) * 6, (0.1,) * 6))
    for length in (1.0, 1.0000001):
        with pytest.raises(FormError, match="takes 0 accepted draft tokens for no setting at all"):
            FORMS["tensorrt-llm"].write(Measured(length))


chances = st.lists(st.floats(0, 1), min_size=1, max_size=5)


@given(chances)
def test_rounding_breaks_no_rule(found: list[float]) -> None:
    rates, survival = [], 1.0
    for chance in found:
        survival *= chance
        rates.append(survival)
    measured = Measured(1 + sum(rates), len(rates), tuple(rates), tuple(found))
    written = json.loads(FORMS["vllm-rates"].write(measured))["synthetic_acceptance_rates"]
    llama = [float(text) for text in FORMS["llama-cpp"].write(measured).split()[1].split(",")]
    assert written == pytest.approx(llama)
    for sent in (written, llama):
        assert sent == sorted(sent, reverse=True)
        assert all(0 <= rate <= 1 for rate in sent)
        assert sent == pytest.approx(rates, abs=1e-6)
    length = json.loads(FORMS["vllm-length"].write(measured))["synthetic_acceptance_length"]
    assert 1 <= length <= len(rates) + 1
    # Dynamo's are conditional: their products are what the others take.
    conditional = [float(text) for text in FORMS["dynamo"].write(measured).split()[3].split(",")]
    assert conditional == pytest.approx(found, abs=1e-6)


def test_each_form_says_what_it_is() -> None:
    for name, form in FORMS.items():
        assert form.name == name
        assert form.hint
        assert "Source:" in (form.write.__doc__ or "")
        assert form.holds in Holds
