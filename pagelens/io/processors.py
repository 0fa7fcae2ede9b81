"""The processors that `pagelens io run` binds a program to."""

from __future__ import annotations

import os
import re

from pagelens.errors import UsageError


def named_processors(text: str) -> tuple[int, ...]:
    """Return the processors of a list such as 0-3,8. Raises UsageError if this process may not use them."""
    may = os.sched_getaffinity(0)
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise UsageError(f"--cores {text}: a list of processors, such as 0-3,8")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    if not found <= may:
        raise UsageError(f"--cores {text}: this process may use {', '.join(map(str, sorted(may)))}")
    return tuple(sorted(found))


def all_but(left: int) -> tuple[int, ...]:
    """Return all processors of this process but so many, the last ones. Raises UsageError if none stays."""
    may = sorted(os.sched_getaffinity(0))
    if not 0 <= left < len(may):
        raise UsageError(
            f"--leave-cores {left}: this process may use {len(may)}, and one must stay: 0 to {len(may) - 1}"
        )
    return tuple(may[: len(may) - left])
