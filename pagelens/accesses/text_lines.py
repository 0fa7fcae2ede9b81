"""Text of other tools by its lines, in batches: as bytes, or as tables that numpy parses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pagelens.accesses.importer import BadLine

BATCH_BYTES = 1 << 22
_PADDING = 32  # bytes behind the text, so that no number reaches beyond it

_DIGITS = np.full(256, 255, np.uint8)  # the value of each byte as a digit
_DIGITS[list(b"0123456789abcdef")] = range(16)
_DIGITS[list(b"ABCDEF")] = range(10, 16)

IMPOSSIBLE = "addresses of a program are below 2^57"

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


def line_batches(stream: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """The lines without their ends, some 100,000 at a time, with the number of the first.

    A last line that lacks its end is a batch of its own. Raises BadLine for a line of some MiB.
    """
    for first, text in _batches(stream):
        lines = text.split(b"\n")
        if not lines[-1]:
            lines.pop()
        yield first, [line.removesuffix(b"\r") for line in lines]


def line_tables(stream: BinaryIO) -> Iterator[Lines]:
    """The same batches as tables."""
    for first, text in _batches(stream):
        padded = np.frombuffer(text + b"\n" * _PADDING, np.uint8)
        ends = np.flatnonzero(padded[: len(text)] == ord("\n"))
        if not text.endswith(b"\n"):
            ends = np.append(ends, len(text))
        starts = np.concatenate(([0], ends[:-1] + 1))
        ends = ends - ((ends > starts) & (padded[ends - 1] == ord("\r")))
        yield Lines(padded, starts, ends, first + np.arange(len(starts)))


def _batches(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Text of whole lines, and the number of the first of them."""
    number, rest = 1, b""
    while read := stream.read(BATCH_BYTES):
        whole, newline, rest = (rest + read).rpartition(b"\n")
        if not newline and len(rest) > BATCH_BYTES:
            raise BadLine(number, rest, "the line has no end")
        if newline:
            yield number, whole + newline
            number += whole.count(b"\n") + 1
    if rest:
        yield number, rest


def possible(addresses: NDArray[np.uint64]) -> Flags:
    """Which addresses a program can have: those below 2^57, and no access reaches 4 GiB further."""
    return addresses < np.uint64((1 << 57) - (1 << 32))


@dataclass(frozen=True)
class Lines:
    """Lines of a text: where each begins and ends (without its end of line), and its number."""

    text: NDArray[np.uint8]
    starts: Integers
    ends: Integers
    numbers: Integers

    @property
    def lengths(self) -> Integers:
        """Bytes of each line."""
        return self.ends - self.starts

    def only(self, kept: Flags) -> Lines:
        """The lines that are `kept`."""
        return Lines(self.text, self.starts[kept], self.ends[kept], self.numbers[kept])

    def character(self, at: Integers) -> NDArray[np.uint8]:
        """The byte at each of these places; an end of line behind the text."""
        return self.text[np.minimum(at, len(self.text) - 1)]

    def begin_with(self, prefix: bytes) -> Flags:
        """Which lines do."""
        found = self.lengths >= len(prefix)
        for place, byte in enumerate(prefix):
            found &= self.character(self.starts + place) == byte
        return found

    def is_blank(self, at: Integers) -> Flags:
        """Whether a space or tab is there."""
        return np.isin(self.character(at), list(b" \t"))

    def skip_blanks(self, at: Integers) -> Integers:
        """The first places from `at` on without a space or tab, or 64 further."""
        for _ in range(64):
            if not (blank := self.is_blank(at)).any():
                break
            at = at + blank
        return at

    def hexadecimal(self, at: Integers) -> tuple[NDArray[np.uint64], Integers]:
        """The numbers of at most 16 digits that stand at these places, and where they end."""
        return self._numbers(at, 16, 16)

    def decimal(self, at: Integers) -> tuple[NDArray[np.uint64], Integers]:
        """The same of at most 18 decimal digits."""
        return self._numbers(at, 10, 18)

    def check(self, *conditions: tuple[Flags, str]) -> None:
        """Raises BadLine for the first line that fails a condition; the text says what to do then."""
        bad = [(int(np.argmin(good)), remedy) for good, remedy in conditions if not good.all()]
        if bad:
            line, remedy = min(bad)
            text = self.text[self.starts[line] : self.ends[line]].tobytes()
            raise BadLine(int(self.numbers[line]), text, remedy)

    def _numbers(self, at: Integers, base: int, most: int) -> tuple[NDArray[np.uint64], Integers]:
        values, end = np.zeros(len(at), np.uint64), at
        going = np.ones(len(at), np.bool_)
        for _ in range(most):
            digits = _DIGITS[self.character(end)]
            going = going & (digits < base)
            if not going.any():
                break
            values = np.where(going, values * np.uint64(base) + digits, values)
            end = end + going
        return values, end
