"""A workload's lines in their order: what replays of page runs need beside them, for machines with a
memory-side cache.

Compiling a program line by line takes longer than most replays, and is large: it is done once for each
offset, and only the parts that are simulated are kept.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.machine import Machine
from pagelens.replay.whole_node import SMALL_SHARE, Parts, simulated_parts, spaced

# Of each phase so many stretches are timed behind the memory-side cache, each of so many lines of all ranks
# after others that warm up the caches before it (and take the replay's page runs out of its beginning).
STRETCHES, STRETCHES_OF_SMALL = 4, 2
WARM_UP, COUNTED = 1 << 15, 1 << 14
STRETCHES_OF_TLB = 16  # short ones: a TLB is soon warm


@dataclass(frozen=True)
class InOrderParts:
    """What is kept of a compilation."""

    translation: Parts  # of one copy, for its TLBs
    rows: _core.RowStretches | None  # where the machine's DRAM is timed


class InOrder:
    """The parts of `ranks` copies of a workload; made when they are first asked for, from any thread."""

    def __init__(self, workload: Workload, machine: Machine, ranks: int) -> None:
        self._workload, self._machine, self._ranks = workload, machine, ranks
        self._lock = threading.Lock()
        self._made: dict[int, InOrderParts] = {}  # by offset

    def at(self, offset_bytes: int) -> InOrderParts:
        """With the arrays at that offset (`Workload.compile`)."""
        with self._lock:
            if offset_bytes not in self._made:
                whole = self._workload.lines_in_order(self._machine, offset_bytes)
                rows = None
                if rows_are_timed(self._machine):
                    rows = _core.RowStretches(whole, stretches(_core.most_lines_by_phase(whole), self._ranks))
                translation = simulated_parts(whole, self._machine, 1, STRETCHES_OF_TLB)
                self._made[offset_bytes] = InOrderParts(translation, rows)
            return self._made[offset_bytes]


def rows_are_timed(machine: Machine) -> bool:
    """Whether DRAM is timed behind the memory-side cache: where the file describes its banks.

    Not behind a fully associative cache: which page it gives up does not follow from who shares a slot.
    """
    return machine.memory_side_cache is not None and machine.dram is not None and not machine.ideal


def stretches(lines: Sequence[int], ranks: int) -> list[tuple[int, int, int, int]]:
    """(period, stretch, warm-up, begin) of each phase in lines of one copy; zeros: all of it.

    `lines`: of one copy, by phase. Their distances are irrational parts of the phase, as in
    `node_replay.excerpts`.
    """
    warm_up, stretch = max(1, WARM_UP // ranks), max(2, (WARM_UP + COUNTED) // ranks)
    found = []
    for number, of_phase in enumerate(lines, start=1):
        small = of_phase < SMALL_SHARE * sum(lines)
        period, begin = spaced(number, of_phase, STRETCHES_OF_SMALL if small else STRETCHES, stretch)
        found.append((period, stretch, warm_up, begin) if period else (0, 0, 0, 0))
    return found
