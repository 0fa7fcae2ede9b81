"""Work with a time limit. A write to the kernel that takes longer is left to go on alone.

A write such as the one that compacts memory returns when the work is done. That can take minutes, and nothing
in the writing process can end it sooner. So a child writes. When its time is over it is killed, which ends
most of the kernel's long loops, and it is not waited for.
"""

import errno
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

NOT_IN_TIME = "did not end in time"
_NO_TIME = "no time was left for it"
_LEAST_S = 0.05  # less is not worth a beginning


class Budget:
    """The seconds that a Prolog or an Epilog may take in all."""

    def __init__(self, seconds: float) -> None:
        self.begin = time.monotonic()
        self.end = self.begin + seconds

    @property
    def used_s(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self.begin

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        return max(0.0, self.end - time.monotonic())

    def attempt(self, work: Callable[[], object], share: float = 1.0) -> str:
        """Do `work` in a child for at most a share of what is left.

        Return why it failed, or an empty text.
        """
        seconds = share * self.left_s
        if seconds < _LEAST_S:
            return _NO_TIME
        child = os.fork()
        if child == 0:
            os._exit(_status_of(work))
        return _wait(child, seconds)

    def run(self, words: Sequence[str], share: float = 1.0) -> str:
        """Run a program in the same way. Its output is dropped."""
        seconds = share * self.left_s
        if seconds < _LEAST_S:
            return _NO_TIME
        try:
            subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=seconds,
                check=True,
            )
        except subprocess.TimeoutExpired:
            return NOT_IN_TIME
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace").strip().splitlines()
            return said[-1][:200] if said else f"exit status {error.returncode}"
        except OSError as error:
            return error.strerror or str(error)
        return ""


def _status_of(work: Callable[[], object]) -> int:
    """Return the errno that some work ends with, or 0."""
    try:
        work()
    except OSError as error:
        return error.errno or errno.EIO
    except BaseException:
        return errno.EIO
    return 0


def _wait(child: int, seconds: float) -> str:
    handle = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(1000 * seconds):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, os.WNOHANG)
            return NOT_IN_TIME
    finally:
        os.close(handle)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        return f"signal {-status} ended it"
    return os.strerror(status) if status else ""
