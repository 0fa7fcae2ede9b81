"""Names that a user mistyped."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names that resemble one, or all of them, as "a, b"."""
    names = list(known)
    return ", ".join(resembling(name, names) or names)


def resembling(name: str, known: Iterable[str]) -> list[str]:
    """The known names that resemble one, the nearest first, at most three."""
    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.4)
