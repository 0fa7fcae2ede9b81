"""A workload's lines in their order, which some replays on machines with a memory-side cache need.

Compiling a program line by line takes longer than most replays, and the result is large. So it is done once
for each offset, and only the parts that are simulated are kept.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.in_thread import in_thread
from pagelens.machine import Machine
from pagelens.replay.whole_node import SMALL_SHARE, Parts, simulated_parts, spaced

# So many stretches of each phase are timed behind the memory-side cache. Each has so many lines of all ranks,
# after others that warm up the caches in front of it and keep the start of the replay's page runs out of it.
STRETCHES, STRETCHES_OF_SMALL = 4, 2
WARM_UP, COUNTED = 1 << 15, 1 << 14
STRETCHES_OF_TLB = 16  # short ones: a TLB is soon warm


@dataclass(frozen=True)
class InOrderParts:
    """The parts of a compilation that are kept."""

    translation: Future[Parts]  # the lines of one copy, for its TLBs
    rows: _core.RowStretches | None  # None if the machine's DRAM is not timed


class InOrder:
    """The parts of `ranks` copies of a workload, made when they are first used. Any thread may ask."""

    def __init__(self, workload: Workload, machine: Machine, ranks: int) -> None:
        self._workload, self._machine, self._ranks = workload, machine, ranks
        self._lock = threading.Lock()
        self._made: dict[int, InOrderParts] = {}  # by offset

    def at(self, offset_bytes: int, cancel: _core.CancelFlag | None = None) -> InOrderParts:
        """Return the parts with the arrays at that offset (`Workload.compile`)."""
        with self._lock:
            if offset_bytes not in self._made:
                whole = self._workload.lines_in_order(self._machine, offset_bytes, cancel)
                translation = in_thread(simulated_parts, whole, self._machine, 1, STRETCHES_OF_TLB)
                rows = None
                if rows_are_timed(self._machine):
                    rows = _core.RowStretches(whole, stretches(_core.most_lines_by_phase(whole), self._ranks))
                self._made[offset_bytes] = InOrderParts(translation, rows)
            return self._made[offset_bytes]


def rows_are_timed(machine: Machine) -> bool:
    """Return whether DRAM is timed behind the memory-side cache, which takes a file that describes its banks.

    Behind a fully associative cache it is not timed, because sharing a slot does not decide which page the
    cache gives up.
    """
    return machine.memory_side_cache is not None and machine.dram is not None and not machine.ideal


def stretches(lines: Sequence[int], ranks: int) -> list[tuple[int, int, int, int]]:
    """Return (period, stretch, warm-up, begin) of each phase, in lines of one copy; zeros mean all.

    `lines` are those of one copy, by phase. The distances are irrational parts of the phase, as in
    `node_replay.excerpts`.
    """
    warm_up, stretch = max(1, WARM_UP // ranks), max(2, (WARM_UP + COUNTED) // ranks)
    found = []
    for number, of_phase in enumerate(lines, start=1):
        small = of_phase < SMALL_SHARE * sum(lines)
        period, begin = spaced(number, of_phase, STRETCHES_OF_SMALL if small else STRETCHES, stretch)
        found.append((period, stretch, warm_up, begin) if period else (0, 0, 0, 0))
    return found
