"""Hands signals that reach pagelens on to the program that runs under it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Self


class SignalsHandedOn:
    """While this context is entered, signals go to the program, which the caller starts and names to `begin`.

    The terminal's signals reach the program directly. Others are handed on, and so are those that came before
    the program was started. While the emulator still prepares itself there is no program, and Ctrl-C ends the
    emulator.
    """

    _NUMBERS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.ended_early = False  # the emulator, before the program began
        self._process: subprocess.Popen[bytes] | None = None
        self._begun: Callable[[], bool] = lambda: True
        self._early: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Ignored signals (nohup, a shell's background job) stay ignored, here and in the program.
        for number in self._NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._hand_on)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def begin(self, process: subprocess.Popen[bytes], begun: Callable[[], bool]) -> None:
        """Name the `process` that runs the program. `begun` tells whether its first instruction has run."""
        self._process, self._begun = process, begun
        for number in self._early:
            process.send_signal(number)

    def _hand_on(self, number: int, _: object) -> None:
        self.seen.add(number)
        if self._process is None:
            self._early.append(number)
        elif number not in (signal.SIGINT, signal.SIGQUIT):
            self._process.send_signal(number)
        elif not self._begun():
            self.ended_early = True
            self._process.kill()


def end_like(exit_status: int) -> int:
    """Return the exit status of a program. If signal n ended it (-n), this process dies of n, too."""
    if exit_status >= 0:
        return exit_status
    sys.stdout.flush()
    sys.stderr.flush()
    number = -exit_status
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    # One core file is enough, and the program has written it.
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.kill(os.getpid(), number)
    return 128 + number
