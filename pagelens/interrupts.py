"""Ctrl-C where nothing has begun yet."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Within it Ctrl-C ends the process instead of showing a traceback: for imports, which take a moment.

    By a handler, not by the default action: when Polars is imported it puts a handler of its own before
    the one it finds, and with none to hand the signal on to it would be lost.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler:  # ignored, or somebody's own
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
