"""Ctrl-C where nothing has begun yet, or all is done."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def end_at_once() -> bool:
    """From now on Ctrl-C ends the process instead of showing a traceback.

    By a handler, not by the default action: when Polars is imported it puts a handler of its own before
    the one it finds, and with none to hand the signal on to it would be lost. False, and nothing changes,
    where Ctrl-C is ignored or somebody's own.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    signal.signal(signal.SIGINT, _end)
    return True


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Within it Ctrl-C ends the process at once: for imports, which take a moment."""
    changed = end_at_once()
    try:
        yield
    finally:
        if changed:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
