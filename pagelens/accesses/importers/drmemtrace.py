"""Reads the traces of DynamoRIO's drmemtrace: a folder with a file for each thread, or one such file.

An entry has 12 bytes: a type, a size and an address (`trace_entry_t` of drmemtrace's common/trace_entry.h).
Instructions come before the data that they load and store. Prefetches are left out, and so is what the kernel
did. Threads are merged by the instructions that each has executed.
"""

from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pagelens.accesses.binary_records import record_batches
from pagelens.accesses.importer import BadRecord, Importer
from pagelens.accesses.text_lines import IMPOSSIBLE, possible
from pagelens.accesses.trace_recorder import TraceRecorder

ENTRY = np.dtype([("type", "<u2"), ("size", "<u2"), ("address", "<u8")])

# trace_type_t
READ, WRITE, BUNDLE, THREAD, HEADER, MARKER, INVALID = 0, 1, 17, 22, 25, 28, 50
INSTRUCTIONS = [*range(10, 17), 31, 48, 49]  # those that are fetched; of a bundle as many as its size
FILE_TYPE = 9  # trace_marker_type_t, the size of a marker
FILTERED = 0x1 | 0x80 | 0x100  # offline_file_type_t
KERNEL = np.uint64(1 << 63)  # and above: the kernel's addresses


def _read(stream: BinaryIO, recorder: TraceRecorder) -> None:
    thread = 0
    for first, entries in record_batches(stream, ENTRY):
        _check(first, entries)
        kinds = entries["type"]
        of_file = entries["address"][(kinds == MARKER) & (entries["size"] == FILE_TYPE)]
        if (of_file & np.uint64(FILTERED)).any():
            recorder.warn("drmemtrace had filtered this trace, so counts of caches miss what it left out")
        begins = np.flatnonzero(kinds == THREAD)
        for part in np.split(entries, begins):
            if part.size and part["type"][0] == THREAD:
                thread = recorder.thread(int(part["address"][0]))
            _record(thread, part, recorder)


def _check(first: int, entries: NDArray[Any]) -> None:
    """Raise BadRecord for the first entry that cannot be."""
    kinds = entries["type"]
    if first == 1 and kinds[0] != HEADER:
        raise BadRecord(1, "it is no header of drmemtrace; raw traces become such files by drraw2trace")
    data = kinds <= WRITE
    sound = (kinds < INVALID) & (~data | possible(entries["address"]) | (entries["address"] >= KERNEL))
    if not sound.all():
        raise BadRecord(first + int(np.argmin(sound)), f"the entry cannot be; {IMPOSSIBLE}")


def _record(thread: int, entries: NDArray[Any], recorder: TraceRecorder) -> None:
    kinds = entries["type"]
    executed = np.isin(kinds, INSTRUCTIONS) + np.where(kinds == BUNDLE, entries["size"], 0)
    counted = np.cumsum(executed.astype(np.int64))
    data = (kinds <= WRITE) & (entries["address"] < KERNEL)
    instructions = np.diff(counted[data], prepend=0)
    rows = entries[data]
    sizes = np.maximum(rows["size"], 1)  # 0 where drmemtrace does not know it, as of an xsave
    recorder.access(thread, rows["address"], sizes, rows["type"] == WRITE, instructions)
    recorder.execute(thread, int(counted[-1] - instructions.sum()) if counted.size else 0)


IMPORTER = Importer(
    "drmemtrace",
    "drrun -t drmemtrace -offline: its folder, or a thread's file",
    _read,
    "Prefetches and the kernel's accesses are left out.",
    pages_exist=True,
    of_folder="*.trace*",
)
