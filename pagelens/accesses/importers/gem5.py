"""Reads gem5's packets as text: what util/decode_packet_trace.py makes of the trace of a MemTraceProbe.

    r,1048576,64,256,77000
    w,1048640,8,256,78000,4198400

A line has `r`, `w` or `u` (another command), an address, bytes, flags if the packet has any, the tick,
and the instruction's address if the probe keeps it. A packet's number may stand before all. Numbers are
decimal.
"""

from typing import BinaryIO

import numpy as np

from pagelens.accesses.importer import Importer
from pagelens.accesses.text_lines import IMPOSSIBLE, line_tables, possible
from pagelens.accesses.trace_recorder import TraceRecorder

REMEDY = "a line is r, w or u, an address, bytes and a tick; decode_packet_trace.py of gem5 writes it"
MOST_NUMBERS = 5  # address, bytes, flags, tick, instruction


def _read(stream: BinaryIO, recorder: TraceRecorder) -> None:
    for lines in line_tables(stream):
        lines = lines.only(lines.lengths > 0)
        _, end = lines.decimal(lines.starts)
        numbered = (end > lines.starts) & (lines.character(end) == ord(","))
        at = np.where(numbered, end + 1, lines.starts)
        command = lines.character(at)
        at = at + 1
        values, count = [], np.zeros(len(at), np.int64)
        for _ in range(MOST_NUMBERS):
            comma = lines.character(at) == ord(",")
            number, end = lines.decimal(at + 1)
            found = comma & (end > at + 1)
            values.append(number)
            count += found
            at = np.where(found, end, at)
        addresses, sizes = values[:2]
        data = np.isin(command, list(b"rw"))
        whole = np.isin(command, list(b"rwu")) & (count >= 3) & (at == lines.ends)
        lines.check(
            (whole & (~data | ((sizes > 0) & (sizes < 1 << 32))), REMEDY),
            (~data | possible(addresses), IMPOSSIBLE),
        )
        recorder.access(0, addresses[data], sizes[data], command[data] == ord("w"))


IMPORTER = Importer(
    "gem5",
    "what gem5's util/decode_packet_trace.py writes",
    _read,
    "Each access counts as an instruction; commands other than reads and writes are left out.",
    pages_exist=True,
)
