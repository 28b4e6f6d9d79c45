"""Answer the signals that end a command, from its first moment to its last.

What is imported here is imported before any signal is taken: it is little.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ONE_SIGNAL_SECONDS = 0.05
"""`timeout` and others signal a process and then its group: what comes so soon is no second wish."""


class _Taker:
    """Take signals: the first is told to whoever listens, or kept until somebody does; a second leaves at once."""

    def __init__(self) -> None:
        self.first: tuple[str, float] | None = None
        self.tell: Callable[[str], None] | None = None
        self.kept: Callable[[], str] | None = None

    def take(self, number: int, frame: object = None) -> None:
        name = signal.Signals(number).name
        if self.first is None:
            self.first = name, time.monotonic()
            if self.tell is not None:
                self.tell(name)
            elif number == signal.SIGINT:
                # Somebody waits at the keyboard. Others, such as `timeout`, want to read how far the run came.
                self.leave(name)
        elif time.monotonic() - self.first[1] > _ONE_SIGNAL_SECONDS:
            self.leave(name)

    def leave(self, name: str) -> None:
        if self.tell is None:
            say_at_once(f"stopped by {name} before anything was sent")
        elif self.kept is not None:
            say_at_once(f"stopped at once by {name}: {self.kept()}")
        # At once means without waiting for anything: every finished request is in its file already.
        os._exit(130 if name == "SIGINT" else 143)


_taker = _Taker()


def take_signals() -> None:
    """Take SIGINT, SIGTERM and SIGHUP from now on: while modules are imported, an exception would be a traceback."""
    for number in _SIGNALS:
        # `nohup` has SIGHUP ignored, and means it.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _taker.take)


def leave_signals_to_the_system() -> None:
    """End at once on SIGTERM and SIGHUP: in a command that measures nothing there is nothing to be told of."""
    if _taker.first is not None:
        _taker.leave(_taker.first[0])
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == _taker.take:
            signal.signal(number, signal.SIG_DFL)


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt`: from now on there is something to be ended in order."""
    if signal.getsignal(signal.SIGINT) == _taker.take and _taker.tell is None:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def signals_put_back() -> Iterator[None]:
    """Keep what `tell_signals_to` does to signals up for the block; then what took them before does so again."""
    before = [(number, signal.getsignal(number)) for number in _SIGNALS]
    try:
        yield
    finally:
        _taker.first = _taker.tell = _taker.kept = None
        for number, handler in before:
            signal.signal(number, handler)


def tell_signals_to(tell: Callable[[str], None], kept: Callable[[], str]) -> None:
    """Tell the name of the first signal, and at once that of one that came before; a second leaves at once.

    What `kept` says, in a clause, is the last that is printed then: what is on disk, and where.
    """
    _taker.tell, _taker.kept = tell, kept
    take_signals()
    if _taker.first is not None:
        tell(_taker.first[0])


def say_at_once(text: str) -> None:
    """Write a line on stderr, whoever else is within a write: a signal comes at any time."""
    try:
        os.write(2, f"{text}\n".encode())
    except OSError:
        return
