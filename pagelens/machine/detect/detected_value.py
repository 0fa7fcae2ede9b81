"""A value that was found or had to be assumed."""

from dataclasses import dataclass
from typing import Literal

Value = int | float | str | list[str] | list[int] | tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Found:
    """A value as a machine file states it: a number, or a text with its unit."""

    value: Value
    kind: Literal["source", "input", "assumed"]
    note: str

    @property
    def count(self) -> int:
        """The value, which must be a whole number."""
        assert isinstance(self.value, int)
        return self.value


def read(value: Value, where: str) -> Found:
    """Return a value that was read, with its source."""
    return Found(value, "source", where)


def assumed(value: float | str | list[str], reason: str) -> Found:
    """Return an assumed value, with the reason for it."""
    return Found(value, "assumed", reason)


def size_text(size: int) -> str:
    """Return bytes with the largest unit that leaves a whole number, such as "1408 KiB"."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale and size % scale == 0:
            return f"{size // scale} {unit}"
    return f"{size} B"
