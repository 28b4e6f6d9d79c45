"""The command line."""

from __future__ import annotations


def main() -> None:
    """Run `spec-profile`."""
    from aiperf_spec.cli.app import app

    app(prog_name="spec-profile")
