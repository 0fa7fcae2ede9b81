"""The processors that `pagelens io run` binds a program to."""

from __future__ import annotations

import os

from pagelens.errors import UsageError
from pagelens.host.process_binding import read_list, write_list


def named_processors(text: str) -> tuple[int, ...]:
    """Return the processors of a list such as 0-3,8. Raises UsageError if this process may not use them."""
    may = os.sched_getaffinity(0)
    found = read_list(text.replace(" ", ""))
    if not found:
        raise UsageError(f"--cores {text}: a list of processors, such as 0-3,8")
    if not found <= may:
        raise UsageError(f"--cores {text}: this process may use {write_list(may)}")
    return tuple(sorted(found))


def all_but(left: int) -> tuple[int, ...]:
    """Return all processors of this process but so many, the last ones. Raises UsageError if none stays."""
    may = sorted(os.sched_getaffinity(0))
    if not 0 <= left < len(may):
        raise UsageError(
            f"--leave-cores {left}: this process may use {len(may)}, and one must stay: 0 to {len(may) - 1}"
        )
    return tuple(may[: len(may) - left])
