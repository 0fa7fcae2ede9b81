"""Finds the stalls of a virtual machine whose host has to map its memory anew.

The host can unmap memory that the guest has not used for a moment. The guest's next access to it then waits
for the host. The guest sees neither a page fault nor steal time, and its clocks of processor time go on.
"""

from __future__ import annotations

import mmap
import time
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHORTEST_S = 50e-6  # longer than what the kernel does now and then in an operation that touches only memory
_LONGEST_BASE_S = 500e-6  # an operation that takes longer hides its stalls
FEWEST = 8  # operations, or stalls, that tell something
_IDLE_BYTES = 64 << 20  # of memory that is left alone


def stalled(times: Floats, work: Floats | float = 1.0) -> Floats:
    """Return how much of each of these processor times was a stall, in seconds.

    They are those of operations that are alike and touch only memory. `work` is what each has to do, such as
    its bytes, in proportion. At least a tenth of them is taken to have no stall.
    """
    if times.size < FEWEST:
        return np.zeros_like(times)
    base = np.quantile(times / work, 0.1) * work
    longer = times - base
    return np.where((longer > SHORTEST_S) & (base < _LONGEST_BASE_S), longer, 0.0)


class IdleMemory:
    """Memory that the process has, and leaves alone between two looks at it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _IDLE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel without transparent huge pages refuses it
            self._memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, _IDLE_BYTES, mmap.PAGESIZE):
            self._memory[at] = 1

    def stalls(self) -> Floats:
        """Touch each page, and return how long those touches took that stalled."""
        clock, times = time.thread_time_ns, []
        for at in range(0, _IDLE_BYTES, mmap.PAGESIZE):
            begin = clock()
            self._memory[at]
            times.append(clock() - begin)
        took = np.asarray(times) / 1e9
        return took[took > SHORTEST_S]
