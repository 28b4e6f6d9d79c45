"""What pydantic finds wrong, in our words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.types import FiniteFloat

from aiperf_spec.config.problems import problem_text


class Form(StrEnum):
    TABLE = "table"
    CSV = "csv"


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (int, "abc", "must be a whole number"),
        (int, 1.5, "must be a whole number"),
        (float, "x", "must be a number"),
        (FiniteFloat, float("nan"), "must be a finite number"),
        (bool, "maybe", "must be true or false"),
        (str, 5, "must be text"),
        (Path, 5, "must be a path"),
        (list[int], 5, "must be a list"),
        (tuple[int, ...], 5, "must be a list"),
        (dict[str, int], 5, "must be keys and values"),
        (Form, "json", "must be 'table' or 'csv'"),
        (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
        (Annotated[int, Field(gt=1)], 1, "must be more than 1"),
        (Annotated[int, Field(le=1)], 2, "must be at most 1"),
        (Annotated[str, Field(min_length=1)], "", "must not be empty"),
    ],
)
def test_each_problem_is_said_in_plain_words(kind: Any, value: Any, said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(kind).validate_python(value)
    assert problem_text(raised.value.errors()[0]) == said


def test_what_a_validator_says_stands() -> None:
    assert problem_text({"type": "value_error", "msg": "Value error, no host."}) == "no host"
