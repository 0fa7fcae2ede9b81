"""Ctrl-C: where nothing has begun yet or all is done, and where work is to stop in good order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagelens import _core


def end_at_once() -> bool:
    """From now on Ctrl-C ends the process instead of showing a traceback.

    By a handler, not by the default action: when Polars is imported it puts a handler of its own before
    the one it finds, and with none to hand the signal on to it would be lost. False, and nothing changes,
    where Ctrl-C is ignored or somebody's own; the default action is that of launcher/pagelens.
    """
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, signal.SIG_DFL):
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


@contextmanager
def ctrl_c_sets(cancel: _core.CancelFlag | Event, *others: signal.Signals) -> Iterator[None]:
    """Within, Ctrl-C (and `others`) sets the flag instead of raising wherever the interpreter happens to be.

    (Polars raises KeyboardInterrupt from a query of its own accord: one Ctrl-C would arrive twice.)
    """
    if current_thread() is not main_thread():
        yield
        return
    numbers = (signal.SIGINT, *others)
    before = {number: signal.signal(number, lambda *_: cancel.set()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
