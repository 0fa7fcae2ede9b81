"""The kinds of arguments that steps take: how each is written, and how errors describe it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pagelens.errors import UsageError
from pagelens.frames.mix import load_mix
from pagelens.units import parse_size


@dataclass(frozen=True)
class Share:
    """A part of memory, or a count of pages."""

    pages: int | None = None
    of_memory: float | None = None

    def of(self, frames: int) -> int:
        """Return the number of pages on a node of that many frames."""
        return self.pages if self.pages is not None else round((self.of_memory or 0.0) * frames)


@dataclass(frozen=True)
class Value:
    """One kind of argument. `parse` raises ValueError for a text that is not of this kind."""

    form: str  # "a count, such as 200"
    parse: Callable[[str], Any]


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def _share(text: str) -> Share:
    if text.endswith("%"):
        value = float(text[:-1]) / 100
        if not 0 <= value <= 1:
            raise ValueError(text)
        return Share(of_memory=value)
    return Share(pages=_count(text))


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except UsageError:
        raise ValueError(text) from None


def choice(words: Mapping[str, Any]) -> Value:
    """Return the kind of argument that is one of these words."""

    def parse(text: str) -> Any:
        if text not in words:
            raise ValueError(text)
        return words[text]

    return Value(" or ".join(words), parse)


COUNT = Value("a count, such as 200", _count)
SIZE = Value("a size with its unit, such as 20GB", _size)
SHARE = Value("a count of pages, or a part of memory such as 0.02%", _share)
SWITCH = choice({"on": True, "off": False})

MIX = Value("the name of a job mix", load_mix)
