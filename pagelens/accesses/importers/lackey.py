"""Reads traces of valgrind's tool lackey: every instruction, load and store of a program.

    ==4042== Lackey, an example Valgrind tool
    I  04001090,3
     S 1ffefffd98,8
     L 04025c70,8
     M 0421c7f4,4

A line has the address in hexadecimal and the bytes in decimal. `M` is a load and a store of the same memory
by one instruction. Valgrind runs one thread at a time and lackey does not say which, so all accesses are
those of one thread.
"""

from typing import BinaryIO

import numpy as np

from pagelens.accesses.importer import Importer
from pagelens.accesses.text_lines import IMPOSSIBLE, Lines, line_tables, possible
from pagelens.accesses.trace_recorder import TraceRecorder

OWN_FILE = "write the trace to a file of its own, with valgrind's --log-file"


def _read(stream: BinaryIO, recorder: TraceRecorder) -> None:
    for lines in line_tables(stream):
        _record(lines, recorder)


def _record(lines: Lines, recorder: TraceRecorder) -> None:
    first = lines.character(lines.starts)
    # Valgrind's own messages, and the headings of --trace-superblocks.
    other = np.isin(first, list(b"=-*")) | (lines.lengths == 0) | lines.begin_with(b"SB ")
    lines, first = lines.only(~other), first[~other]
    second, third = (lines.character(lines.starts + place) for place in (1, 2))
    fetches = (first == ord("I")) & (second == ord(" "))
    data = (first == ord(" ")) & np.isin(second, list(b"LSM"))
    addresses, commas = lines.hexadecimal(lines.starts + 3)
    sizes, ends = lines.decimal(commas + 1)
    numbers = (commas > lines.starts + 3) & (lines.character(commas) == ord(",")) & (ends == lines.ends)
    lines.check(
        ((fetches | data) & (third == ord(" ")) & numbers & (sizes > 0) & (sizes < 1 << 32), OWN_FILE),
        (fetches | possible(addresses), IMPOSSIBLE),
    )

    counted = np.cumsum(fetches)  # instructions up to each line
    rows = np.flatnonzero(data)
    rows = np.repeat(rows, np.where(second[rows] == ord("M"), 2, 1))
    store_of_both = np.diff(rows, prepend=-1) == 0
    stores = (second[rows] == ord("S")) | store_of_both
    recorder.access(0, addresses[rows], sizes[rows], stores, np.diff(counted[rows], prepend=0))
    if fetches.any():
        recorder.execute(0, int(counted[-1] - (counted[rows[-1]] if rows.size else 0)))


IMPORTER = Importer(
    "lackey",
    "valgrind --tool=lackey --trace-mem=yes --log-file=FILE",
    _read,
    "It has no threads, so all accesses are those of one.",
)
