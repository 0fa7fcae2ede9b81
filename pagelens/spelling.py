"""Names that a user mistyped, and names that no text can hold."""

import difflib
import os
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names that resemble one, or all of them, as "a, b"."""
    names = list(known)
    return ", ".join(resembling(name, names) or names)


def resembling(name: str, known: Iterable[str]) -> list[str]:
    """The known names that resemble one, the nearest first, at most three."""
    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.4)


def printable(text: object) -> str:
    """A path or a command as text: bytes that are no UTF-8, which file names may have, as \\xff."""
    return os.fsencode(str(text)).decode("utf-8", "backslashreplace")
