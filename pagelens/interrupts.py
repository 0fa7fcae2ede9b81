"""Handles Ctrl-C: it ends the process at once, or stops work in good order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import FrameType

    from pagelens import _core

_Result = TypeVar("_Result")
_LOOK_S = 0.2  # seconds until a signal is handled at the latest


def end_at_once() -> bool:
    """Make Ctrl-C end the process from now on, without a traceback. Return whether anything changed.

    A handler does it, not the default action. When Polars is imported, it puts a handler of its own before
    the one that it finds, and with none to hand the signal on to, the signal would be lost. Nothing changes
    if Ctrl-C is ignored or handled by somebody else. The default action is that of launcher/pagelens.
    """
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, signal.SIG_DFL):
        return False
    signal.signal(signal.SIGINT, _end)
    return True


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process at once within the context. This is for imports, which take a moment."""
    changed = end_at_once()
    try:
        yield
    finally:
        if changed:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ctrl_c_sets(cancel: _core.CancelFlag | Event, *others: signal.Signals) -> Iterator[None]:
    """Let Ctrl-C (and `others`) set the flag within the context, instead of raising anywhere.

    Polars raises KeyboardInterrupt from a query by itself, so one Ctrl-C would arrive twice. Where one such
    context lies in another, both flags are set.
    """
    if current_thread() is not main_thread():
        yield
        return
    numbers = (signal.SIGINT, *others)
    before = {number: signal.signal(number, _Sets(cancel, signal.getsignal(number))) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def result_of(future: Future[_Result]) -> _Result:
    """Return what another thread finds, and handle signals while it looks.

    A signal that comes just before the main thread begins to wait, or that another thread is interrupted by,
    does not end the wait. So it ends a few times a second.
    """
    from concurrent.futures import wait  # every command imports this module, and few wait

    while wait([future], _LOOK_S).not_done:
        pass
    return future.result()


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Let Ctrl-C wait until the end of the context, in which a process is started.

    Python runs functions of its modules after a fork, and loses a KeyboardInterrupt that is raised in one of
    them. If one is raised elsewhere in `Popen`, the new process runs on without an owner.
    """
    if not callable(signal.getsignal(signal.SIGINT)):  # ignored, as the new process will ignore it
        yield
        return
    came = Event()
    try:
        with ctrl_c_sets(came):
            yield
    finally:
        if came.is_set():
            signal.raise_signal(signal.SIGINT)


class _Sets:
    """A handler that sets a flag, and that of the block around."""

    def __init__(self, cancel: _core.CancelFlag | Event, outer: object) -> None:
        self._cancel, self._outer = cancel, outer

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._cancel.set()
        if isinstance(self._outer, _Sets):
            self._outer(number, frame)


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
