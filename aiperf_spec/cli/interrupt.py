"""Answer Ctrl-C from the command's first moment on."""

import os
import signal


def leave_at_once_on_interrupt() -> None:
    """Let Ctrl-C end the process: while modules are imported nothing has begun, and an exception is a traceback."""
    signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` instead: from now on there is something to be ended in order."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    os._exit(130)
