"""Reads traces of DRAMsim3: an address, an operation and a cycle on each line.

    0x2000D5C0 READ  30
    0x1FF96FC0 WRITE   160

DRAMsim3 reads addresses in hexadecimal, with or without 0x, and takes WRITE, write, P_MEM_WR and BOFF for
writes (src/common.cc). An access moves a line of 64 bytes and counts as an instruction. The cycle is left
out.
"""

from typing import BinaryIO

import numpy as np

from pagelens.accesses.importer import Importer
from pagelens.accesses.text_lines import IMPOSSIBLE, line_tables, possible
from pagelens.accesses.trace_recorder import TraceRecorder

WRITES = (b"WRITE", b"write", b"P_MEM_WR", b"BOFF")
READS = (b"READ", b"read", b"P_MEM_RD", b"P_FETCH")
LENGTHS = np.array([len(word) for word in WRITES + READS])
REMEDY = "a line is an address in hexadecimal, READ or WRITE, and a cycle"


def _read(stream: BinaryIO, recorder: TraceRecorder) -> None:
    for lines in line_tables(stream):
        begin = lines.skip_blanks(lines.starts)
        filled = begin < lines.ends
        lines, begin = lines.only(filled), begin[filled]
        digits = begin + 2 * lines.is_hexadecimal(begin)
        addresses, ends = lines.hexadecimal(digits)
        at = lines.skip_blanks(ends)
        words = np.array([lines.has_word(at, word) for word in WRITES + READS])
        writes, known = words[: len(WRITES)].any(axis=0), words.any(axis=0)
        cycle = lines.skip_blanks(at + LENGTHS @ words)
        _, last = lines.decimal(cycle)
        whole = (
            (ends > digits) & (at > ends) & known & (last > cycle) & (lines.skip_blanks(last) == lines.ends)
        )
        lines.check((whole, REMEDY), (possible(addresses), IMPOSSIBLE))
        recorder.access(0, addresses, 1, writes)


IMPORTER = Importer(
    "dramsim3",
    "DRAMsim3's text: an address, READ or WRITE, and a cycle",
    _read,
    "Its addresses are physical; they are taken for the program's. Cycles are left out.",
    pages_exist=True,
)
