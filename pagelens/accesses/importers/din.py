"""Reads traces in the format din of the cache simulator Dinero IV, which many other tools write, too.

    2 430d70
    0 7fffe8a8
    1 1001c2e0

A line has a label and an address in hexadecimal; what follows on the line is left out. Label 0 is a read, 1 a
write and 2 the fetch of an instruction. The format has no sizes: an access moves the line of 64 bytes that
holds its address. Instructions are counted by their fetches. If the file begins without any, each access
counts as an instruction.
"""

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pagelens.accesses.importer import Importer
from pagelens.accesses.text_lines import IMPOSSIBLE, Lines, line_tables, possible
from pagelens.accesses.trace_recorder import TraceRecorder

READ, WRITE, FETCH = 0, 1, 2
REMEDY = "a line is a label, 0, 1 or 2, and an address in hexadecimal"


def _read(stream: BinaryIO, recorder: TraceRecorder) -> None:
    has_fetches: bool | None = None
    for lines in line_tables(stream):
        labels, addresses = _columns(lines)
        if has_fetches is None:
            has_fetches = bool((labels == FETCH).any())
        data = labels != FETCH
        counted = np.cumsum(labels == FETCH) if has_fetches else np.cumsum(data)
        instructions = np.diff(counted[data], prepend=0)
        recorder.access(0, addresses[data], 1, labels[data] == WRITE, instructions)
        recorder.execute(0, int(counted[-1] - instructions.sum()) if counted.size else 0)


def _columns(lines: Lines) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the labels and addresses of all lines that have any."""
    at = lines.skip_blanks(lines.starts)
    filled = at < lines.ends
    lines, at = lines.only(filled), at[filled]
    labels, ends = lines.decimal(at)
    begin = lines.skip_blanks(ends)
    begin = begin + 2 * lines.is_hexadecimal(begin)
    addresses, last = lines.hexadecimal(begin)
    apart = (ends == at + 1) & (begin > ends) & (last > begin)
    lines.check(
        (apart & (labels <= FETCH) & ((last == lines.ends) | lines.is_blank(last)), REMEDY),
        ((labels == FETCH) | possible(addresses), IMPOSSIBLE),
    )
    return labels, addresses


IMPORTER = Importer(
    "din",
    "Dinero IV's text: a label and an address on each line",
    _read,
    "It has no sizes, so an access moves one line of 64 bytes.",
)
