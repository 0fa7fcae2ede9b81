"""Names that a user mistyped."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names that resemble one, or all of them, as "a, b"."""
    names = list(known)
    return ", ".join(difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names)
