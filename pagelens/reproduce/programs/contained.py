"""Programs that fit into the L2s of a socket, with a copy on every core, and what its snoop filter evicts."""

import numpy as np

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.machine import Machine
from pagelens.machine.caches import count
from pagelens.replay.whole_node import caches_below_l1
from pagelens.reproduce.programs.pages import PAGE_LINES, Numbers

SAMPLED = 16  # one line in so many: their sets are apart, in L2, snoop filter and L3
WARM_UP = 2  # repeats, until nothing is new any more


class Contained:
    """A declared workload with `bytes_a_core` on each core of a machine.

    Its lines are made once, and replayed on any frames. The copies lie one after the other in pages of 2 MiB,
    and run in lockstep.
    """

    def __init__(self, machine: Machine, name: str, bytes_a_core: int) -> None:
        self._machine = machine
        cores = machine.cores.count.value
        once, twice = (_lines(machine, name, bytes_a_core, repeats) for repeats in (1, 2))
        repeat = twice[len(once) :]
        own = declared(name, bytes_a_core, 1).footprint_bytes // LINE_BYTES
        addresses = repeat & ~np.uint64(_core.DRAM_WRITE)
        in_step = (addresses // np.uint64(LINE_BYTES))[:, None] + own * np.arange(cores, dtype=np.uint64)
        sampled = in_step % np.uint64(SAMPLED) == SAMPLED // 2
        kinds = np.where(repeat == addresses, _core.AccessKind.read, _core.AccessKind.write_back)
        self._lines = in_step[sampled]
        self._cores = np.broadcast_to(np.arange(cores, dtype=np.uint32), in_step.shape)[sampled]
        self._kinds = np.broadcast_to(kinds.astype(np.uint8)[:, None], in_step.shape)[sampled]
        self.pages = -(-cores * own // PAGE_LINES)

    def lost(self, frames: Numbers) -> float:
        """Return the snoop filter's evictions in a repeat, per reference to the L2s.

        `frames` gives the frame number of each 2 MiB page.
        """
        caches = caches_below_l1(self._machine)
        pages, within = np.divmod(self._lines, np.uint64(PAGE_LINES))
        lines = frames[pages] * np.uint64(PAGE_LINES) + within
        for _ in range(WARM_UP + 1):
            caches.reset_counts()
            caches.access(lines, self._cores, self._kinds)
        return float(count(caches, "sf_evictions").sum() / count(caches, "l2_references").sum())


def _lines(machine: Machine, name: str, size_bytes: int, repeats: int) -> Numbers:
    """Return what one copy asks of its L2, as byte addresses from 0 on.

    Lines that L1 writes back have the bit DRAM_WRITE.
    """
    program = declared(name, size_bytes, 1, repeats).lines_in_order(machine)
    frames = -(-size_bytes // FRAME_BYTES) * 2
    below = _core.PhysicalLines(
        program, _core.place_contiguously(frames),
        l2_sets=machine.l1.sets, l2_ways=machine.l1.ways.value, l2_shared_by=1,
    )  # fmt: skip
    batches = []
    while (batch := below.next()).size:
        batches.append(batch)
    return np.concatenate(batches)
