"""The command line."""


def main() -> None:
    """Run `spec-profile`."""
    import gc

    # Importing makes many thousands of objects and next to no garbage.
    gc.set_threshold(300_000, 20, 100)
    from aiperf_spec.cli.app import app

    try:
        app(prog_name="spec-profile")
    finally:
        # The interpreter looks through every object once more before it goes: 70 ms in which nothing is found.
        gc.freeze()
