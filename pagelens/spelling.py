"""Suggests known names for mistyped ones, and prints names that are no text."""

import difflib
import os
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known names that resemble one, or all of them, as "a, b"."""
    names = list(known)
    return ", ".join(resembling(name, names) or names)


def resembling(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that resemble one, the nearest first, at most three."""
    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.4)


def printable(text: object) -> str:
    r"""Return a path or a command as text.

    Bytes that are not UTF-8, which file names may have, become `\xff` and the like.
    """
    return os.fsencode(str(text)).decode("utf-8", "backslashreplace")
