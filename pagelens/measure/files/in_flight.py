"""One round of a measurement of files: direct transfers of one thread, several of them in flight.

The kernel's asynchronous I/O (io_submit, which libaio calls) makes them. Containers often forbid io_uring.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from functools import partial

from pagelens import _probes
from pagelens.measure.files.cores import on_core
from pagelens.measure.files.measured import Measured
from pagelens.measure.files.series import MIB, Once, Scratch, failure_of, offsets, repeat

DEPTHS = (2, 8, 32)
SIZES = (4 << 10, 64 << 10, MIB)
_MOST_BYTES, _MOST_TRANSFERS = 32 * MIB, 256  # of a repetition
_REFUSED = "The kernel refuses asynchronous operations here, so none were measured in flight."


def measure_in_flight(m: Measured, scratch: Scratch, sizes: Sequence[int], each_s: float) -> None:
    """Measure reads and writes of those of the sizes that `SIZES` has, on the scratch file."""
    if _REFUSED in m.notes:
        return
    try:
        with scratch.open(os.O_DIRECT) as file, on_core(m.interrupt_core):
            for size in (size for size in SIZES if size in sizes):
                for depth in DEPTHS:
                    for kind, write in (("direct_read", False), ("direct_write", True)):
                        samples = repeat(partial(_once, file, write, size, depth), each_s)
                        m.keep_in_flight(kind, size, depth, samples)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
            raise failure_of(error) from None
        m.notes.append(_REFUSED)


def _once(file: int, write: bool, size: int, depth: int, number: int) -> Once:
    at = offsets(size, number)
    count = max(2 * depth, min(_MOST_TRANSFERS, _MOST_BYTES // size))
    at = at[:: -(-len(at) // count)]
    done = _probes.queued_loop(file, write, size, at, depth)
    return done.cpu_s, max(done.cpu_s, done.wall_s - done.queued_s), len(at)
