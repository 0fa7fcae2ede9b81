"""A developer's list: names of objects, one per line, in the order in which they should get fast memory.

A name is that of a call site or variable as reports show it, a part of one between word boundaries
(`generate_matrix`, `hydro.cpp:212`), or a shell pattern (`Mesh::*`). `#` begins a comment at the begin of a
line or after a blank, unless it is part of a name (`main::{lambda()#2}`, `make (app.c:5) #2`).
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pagelens.accesses.workload import ObjectInfo
from pagelens.errors import UsageError
from pagelens.spelling import resembling

MOST_BYTES = 1 << 20  # of a list
_COMMENT = re.compile(r"^\s*#.*|\s#(?!\d+\s*(?:#|$)).*")


def read_list(path: Path) -> list[str]:
    """Return the names of a list. Raises UsageError if it cannot be read or has none."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--list: {path}: {error.strerror}; name a file of names, one a line") from None
    if len(text) > MOST_BYTES:
        raise UsageError(f"--list: {path} has more than {MOST_BYTES} bytes; name a file of names, one a line")
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--list: {path} is not text (byte {error.start}); write names, one a line"
        ) from None
    names = [name for line in lines if (name := _COMMENT.sub("", line).strip())]
    if not names:
        raise UsageError(f"--list: {path} names nothing; write names of objects, one a line")
    return names


def listed_objects(names: Sequence[str], objects: Sequence[ObjectInfo]) -> list[int]:
    """Return the indices of the objects that the names mean, in the list's order, each once.

    Raises UsageError for a name that means none, with the nearest one.
    """
    placeable = [known for known in objects if known.placeable]
    found: dict[int, None] = {}
    for name in names:
        meant = [known.index for known in placeable if _means(name, known.name)]
        if not meant:
            near = resembling(name, [known.name for known in placeable])
            offer = "; did you mean " + ", ".join(map(repr, near)) + "?" if near else ""
            raise UsageError(
                f"--list: '{name}' is no object of the program{offer} (place.json of a run without --list "
                "names all)"
            )
        found.update(dict.fromkeys(meant))
    return list(found)


def _means(name: str, whole: str) -> bool:
    return (
        name == whole
        or fnmatchcase(whole, name)
        or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", whole) is not None
    )
