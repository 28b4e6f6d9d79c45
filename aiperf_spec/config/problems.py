"""Word what is wrong with a value, in place of what pydantic says."""

from collections.abc import Mapping
from typing import Any

_WORDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "finite_number": "must be a finite number",
    "int_parsing_size": "is too large a number",
    "string_too_short": "must not be empty",
    "extra_forbidden": "is not known",
    "missing": "is missing",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("string_type", "string_unicode"), "must be text"),
    **dict.fromkeys(("path_type",), "must be a path"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "must be keys and values"),
}


def problem_text(problem: Mapping[str, Any]) -> str:
    """Return one of pydantic's problems in words; what a validator of ours says stands as it is."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in ("enum", "literal_error"):
        return f"must be {context['expected']}"
    if kind in _WORDS:
        return _WORDS[kind].format(**context)
    return str(problem["msg"]).removeprefix("Value error, ").removesuffix(".")
