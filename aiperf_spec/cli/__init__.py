"""The command line."""

from __future__ import annotations


def main() -> None:
    """Run `spec-profile`."""
    import gc

    # Importing makes many thousands of objects and next to no garbage.
    gc.set_threshold(50_000, 20, 100)
    from aiperf_spec.cli.app import app

    app(prog_name="spec-profile")
