"""The page of options is the one that the declarations make."""

from __future__ import annotations

from importlib import resources

from aiperf_spec.config.option_table import OPTIONS
from tests.options_page import options_markdown


def test_the_page_is_what_the_declarations_make() -> None:
    page = (resources.files("aiperf_spec") / "docs" / "options.md").read_text(encoding="utf-8")
    assert page == options_markdown(), (
        "options changed: python -m tests.options_page aiperf_spec/docs/options.md writes the page anew"
    )


def test_every_declared_option_has_a_row_with_its_default_and_bounds() -> None:
    rows = options_markdown().partition("## spec-profile report")[0].splitlines()
    for name, declared in OPTIONS.items():
        (row,) = (
            each for each in rows if each.startswith((f"| `{declared.names[0].partition('/')[0]}`", f"| `{name}`"))
        )
        assert declared.help in row
        assert declared.bounds in row
    assert "| `--request-timeout-seconds` S | `endpoint.timeout` |" in options_markdown()
    assert "Default: `600`. Takes `x>0`. |" in options_markdown()
    assert "Default: `60`. Takes `x>0`. |" in options_markdown()
