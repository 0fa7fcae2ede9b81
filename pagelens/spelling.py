"""Suggests known names for mistyped ones, and prints names that are no text."""

import difflib
import os
import shlex
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


def typed(word: object) -> str:
    r"""Return a word of a command as a user types it in a shell: quoted where necessary.

    Bytes that are not UTF-8 and control characters stand as `$'\xff'`, which bash and zsh understand.
    """
    text = str(word)
    if text.isprintable():  # lone surrogates, which stand for such bytes, are not
        return shlex.quote(text)
    escaped = text.replace("\\", r"\\").replace("'", r"\'")
    every = (c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(c)) for c in escaped)
    return f"$'{''.join(every)}'"


def typed_command(words: Iterable[str]) -> str:
    """Return a command as a user types it in a shell."""
    return " ".join(map(typed, words))
