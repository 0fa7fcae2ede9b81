"""Reads traces of ChampSim: a record of 64 bytes for each instruction.

A record has the instruction's address, two bytes about branches, six registers, and the addresses of up to
two stores and four loads, where 0 stands for none (`input_instr` of ChampSim's inc/trace_instruction.h). The
format has no sizes, so an access moves the line of 64 bytes that holds its address.
"""

from typing import BinaryIO

import numpy as np

from pagelens.accesses.binary_records import record_batches
from pagelens.accesses.importer import BadRecord, Importer
from pagelens.accesses.text_lines import IMPOSSIBLE, possible
from pagelens.accesses.trace_recorder import TraceRecorder

RECORD = np.dtype(
    [("ip", "<u8"), ("branch", "u1", 2), ("registers", "u1", 6), ("stores", "<u8", 2), ("loads", "<u8", 4)]
)


def _read(stream: BinaryIO, recorder: TraceRecorder) -> None:
    for first, records in record_batches(stream, RECORD):
        addresses = np.hstack([records["loads"], records["stores"]])  # an instruction loads before it stores
        here = addresses != 0
        good = (possible(addresses) | ~here).all(axis=1)
        if not good.all():
            raise BadRecord(first + int(np.argmin(good)), f"{IMPOSSIBLE}; is this a trace of ChampSim?")
        rows, columns = np.nonzero(here)
        recorder.access(0, addresses[here], 1, columns >= 4, np.diff(rows, prepend=-1))
        recorder.execute(0, len(records) - 1 - (int(rows[-1]) if rows.size else -1))


IMPORTER = Importer(
    "champsim",
    "ChampSim's traces of a core, as app.champsimtrace.xz",
    _read,
    "They have no sizes, so an access moves one line of 64 bytes.",
    pages_exist=True,
)
