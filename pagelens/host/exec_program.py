"""Puts a program in place of this process, or of a child of it."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from pagelens.errors import Failure


def with_default_signals() -> None:
    """Let SIGPIPE and SIGXFSZ end the program, which Python ignores. For `preexec_fn`."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def cannot_run(name: str, error: OSError) -> Failure:
    """Return the error of a program that the kernel refuses to run."""
    return Failure(f"program {name}: cannot be run ({error.strerror}); is it built for here?")


def become(path: Path, words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run the program in place of this process. Raises Failure if the kernel refuses."""
    sys.stdout.flush()
    sys.stderr.flush()
    with_default_signals()
    try:
        os.execve(path, list(words), environment)
    except OSError as error:
        raise cannot_run(words[0], error) from None
