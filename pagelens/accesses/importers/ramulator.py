"""Reads traces of Ramulator: loads and stores, or instructions between them.

    LD 0x12340
    ST 4096

    3 20734016
    8 20841280 20841344

The first form is that of its front end LoadStoreTrace. The second is that of SimpleO3 and of the CPU traces
of Ramulator 1: so many instructions without memory, then a load, and with a third number also a write-back.
A number is hexadecimal behind 0x. An access moves a line of 64 bytes.
"""

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pagelens.accesses.importer import Importer
from pagelens.accesses.text_lines import IMPOSSIBLE, Flags, Integers, Lines, line_tables, possible
from pagelens.accesses.trace_recorder import TraceRecorder

REMEDY = "a line is LD or ST and an address, or a count of instructions and one or two addresses"


def _read(stream: BinaryIO, recorder: TraceRecorder) -> None:
    for lines in line_tables(stream):
        begin = lines.skip_blanks(lines.starts)
        filled = begin < lines.ends
        _record(lines.only(filled), begin[filled], recorder)


def _record(lines: Lines, begin: Integers, recorder: TraceRecorder) -> None:
    stores = lines.has_word(begin, b"ST")
    named = stores | lines.has_word(begin, b"LD")
    counts, after_count = lines.number(begin)
    ends = np.where(named, begin + 2, after_count)
    at = lines.skip_blanks(ends)
    addresses, after_address = lines.number(at)
    second = lines.skip_blanks(after_address)
    written, after_written = lines.number(second)
    writes_back = ~named & (second > after_address) & (after_written > second)
    last = np.where(writes_back, lines.skip_blanks(after_written), second)
    whole = (ends > begin) & (at > ends) & (after_address > at) & (last == lines.ends)
    lines.check(
        (whole & (named | (counts < 1 << 31)), REMEDY),
        (possible(addresses) & (~writes_back | possible(written)), IMPOSSIBLE),
    )
    rows = np.repeat(np.arange(len(begin)), 1 + writes_back)
    back: Flags = np.diff(rows, prepend=-1) == 0
    executed: NDArray[np.uint64] = np.where(named, 0, counts) + np.uint64(1)
    recorder.access(
        0,
        np.where(back, written[rows], addresses[rows]),
        1,
        stores[rows] | back,
        np.where(back, np.uint64(0), executed[rows]),
    )


IMPORTER = Importer(
    "ramulator",
    "Ramulator's text: LD 0x40; or instructions and addresses",
    _read,
    "An access moves one line of 64 bytes.",
    pages_exist=True,
)
