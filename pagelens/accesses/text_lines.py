"""Reads other tools' text in batches of lines, as bytes or as tables that numpy parses."""

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
    """Yield lists of some 100,000 lines without their ends, each with the number of its first line.

    A last line that lacks its end is a batch of its own. Raises BadLine for a line of some MiB.
    """
    for first, text in _batches(stream):
        lines = text.split(b"\n")
        if not lines[-1]:
            lines.pop()
        yield first, [line.removesuffix(b"\r") for line in lines]


def line_tables(stream: BinaryIO) -> Iterator[Lines]:
    """Yield the same batches as tables."""
    for first, text in _batches(stream):
        padded = np.frombuffer(text + b"\n" * _PADDING, np.uint8)
        ends = np.flatnonzero(padded[: len(text)] == ord("\n"))
        if not text.endswith(b"\n"):
            ends = np.append(ends, len(text))
        starts = np.concatenate(([0], ends[:-1] + 1))
        ends = ends - ((ends > starts) & (padded[ends - 1] == ord("\r")))
        yield Lines(padded, starts, ends, first + np.arange(len(starts)))


def _batches(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield texts of whole lines, each with the number of its first line."""
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
    """Return which addresses a program can have: below 2^57, with room for an access of up to 4 GiB."""
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
        """The number of bytes of each line."""
        return self.ends - self.starts

    def only(self, kept: Flags) -> Lines:
        """Return the lines that `kept` selects."""
        return Lines(self.text, self.starts[kept], self.ends[kept], self.numbers[kept])

    def character(self, at: Integers) -> NDArray[np.uint8]:
        """Return the byte at each of these places. Places behind the text hold an end of line."""
        return self.text[np.minimum(at, len(self.text) - 1)]

    def begin_with(self, prefix: bytes) -> Flags:
        """Return which lines begin with `prefix`."""
        found = self.lengths >= len(prefix)
        for place, byte in enumerate(prefix):
            found &= self.character(self.starts + place) == byte
        return found

    def is_blank(self, at: Integers) -> Flags:
        """Return at which of these places there is a space or tab."""
        return np.isin(self.character(at), list(b" \t"))

    def skip_blanks(self, at: Integers) -> Integers:
        """Return the first places from `at` on without a space or tab, but at most 64 places further."""
        for _ in range(64):
            if not (blank := self.is_blank(at)).any():
                break
            at = at + blank
        return at

    def hexadecimal(self, at: Integers) -> tuple[NDArray[np.uint64], Integers]:
        """Return the numbers of at most 16 hexadecimal digits at these places, and where they end."""
        return self._numbers(at, 16, 16)

    def decimal(self, at: Integers) -> tuple[NDArray[np.uint64], Integers]:
        """Return the numbers of at most 18 decimal digits at these places, and where they end."""
        return self._numbers(at, 10, 18)

    def number(self, at: Integers) -> tuple[NDArray[np.uint64], Integers]:
        """Return the numbers at these places, hexadecimal behind a 0x and else decimal, and where they end.

        Where there is no number, it ends where it begins.
        """
        prefixed = self.is_hexadecimal(at)
        begin = at + 2 * prefixed
        of_16, end_16 = self.hexadecimal(begin)
        of_10, end_10 = self.decimal(at)
        ends = np.where(prefixed, np.where(end_16 > begin, end_16, at), end_10)
        return np.where(prefixed, of_16, of_10), ends

    def is_hexadecimal(self, at: Integers) -> Flags:
        """Return at which of these places there is a 0x."""
        first: Flags = self.character(at) == ord("0")
        return first & np.isin(self.character(at + 1), list(b"xX"))

    def has_word(self, at: Integers, word: bytes) -> Flags:
        """Return at which of these places there is this word, with a blank or the line's end behind it."""
        found: Flags = at + len(word) <= self.ends
        for place, byte in enumerate(word):
            found &= self.character(at + place) == byte
        found &= (at + len(word) == self.ends) | self.is_blank(at + len(word))
        return found

    def check(self, *conditions: tuple[Flags, str]) -> None:
        """Raise BadLine for the first line that fails a condition, with the text as its remedy."""
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
