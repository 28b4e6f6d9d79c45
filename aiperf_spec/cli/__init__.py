"""The command line."""


def main() -> None:
    """Run `spec-profile`."""
    from aiperf_spec.cli.interrupt import take_signals

    take_signals()
    import gc
    import signal

    from aiperf_spec.errors import SpecProfileError

    _open_standard_streams()
    # Importing makes many thousands of objects and next to no garbage.
    gc.set_threshold(300_000, 20, 100)
    from aiperf_spec.cli.app import app

    try:
        app(prog_name="spec-profile")
    except (SpecProfileError, OSError) as error:
        # What a command prints outside its own handler: on a full disk, help and version too.
        from aiperf_spec.cli.terminal import fail

        fail(error)
    finally:
        # Everything was shown and written; what is left would be a traceback within the interpreter's own ending.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The interpreter looks through every object once more before it goes: 70 ms in which nothing is found.
        gc.freeze()


def _open_standard_streams() -> None:
    """Put the null device where a standard stream was closed: the first socket would take its number and its output.

    What an encoding lacks becomes a question mark.
    """
    import os
    import sys

    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        # Help is printed by a console that is not ours, and holds what an old encoding lacks.
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="replace")
