"""The cost of DRAM rows behind a memory-side cache, beyond the cost that the stated bandwidth includes.

Stretches of the program are timed on the banks that the file describes, once as they are and once with every
row found open (core/replay/rows_behind.hpp). The difference per line is the cost of rows. The cost for
STREAM's triad on all cores is subtracted, because the stated bandwidth includes it. So a stream that misses
gets the stated bandwidth, and the rest is never negative. The result is modelled, as are maps and timings.
"""

import threading

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.machine import Machine
from pagelens.machine.dram import WRITE, Dram
from pagelens.replay.mechanisms import SNOOP_FILTER
from pagelens.replay.ordered_lines import InOrder, rows_are_timed
from pagelens.replay.placement import Placement
from pagelens.replay.whole_node import caches_below_l1

# If fewer lines of a phase's stretches reach DRAM, the phase has no cost of rows, because a single opened row
# would show.
FEWEST_LINES = 4096
STREAM_PAGES = 8  # of each array, that each core walks over

_SUMS = tuple(_core.dram_sum_names())
_ROWS = ("row_hits", "row_misses", "row_conflicts")

Floats = NDArray[np.float64]


class RowsBehind:
    """The DRAM of `ranks` copies of a workload.

    What replays need of it is made when it is first used.
    """

    def __init__(self, in_order: InOrder, machine: Machine) -> None:
        self._in_order, self._machine = in_order, machine
        self._lock = threading.Lock()
        self._models: dict[tuple[int, int, str], _core.RowModel] = {}  # by what decides one
        self._of_stream: float | None = None

    def model(
        self, placement: Placement, program: _core.Program, cancel: _core.CancelFlag | None = None
    ) -> _core.RowModel | None:
        """Return the model for replays of a placement, or None if DRAM is not timed.

        Any thread may call this.
        """
        machine = placement.machine
        if machine.dram is None or not rows_are_timed(self._machine):
            return None  # and nothing is compiled for it
        rows = self._in_order.at(placement.offset_bytes, cancel).rows
        assert rows is not None
        outstanding = machine.cores.outstanding_lines.value
        with self._lock:
            key = (placement.page_bits, placement.offset_bytes, machine.name)
            if key not in self._models:
                self._models[key] = _core.RowModel(
                    stretches=rows,
                    lines=_core.most_lines_by_phase(program),
                    caches=caches_below_l1(machine, (SNOOP_FILTER,), writes_at_once=True),
                    drams=[
                        machine.dram.core(outstanding=outstanding, ideal=ideal) for ideal in (False, True)
                    ],
                )
            return self._models[key]

    def counts(self, counters: _core.Counters, ddr_lines: Floats) -> dict[str, Floats]:
        """Return by phase `row_s`, the seconds per line of DDR, and how the lines of DDR found their bank.

        The latter are the parts of `ddr_lines` that found the row open, the bank closed, or another row open.
        """
        drams = np.asarray(counters.drams, dtype=np.float64)
        if drams.shape[1] == 0:
            return dict.fromkeys(("row_s", *_ROWS), np.zeros(len(ddr_lines)))
        with self._lock:
            if self._of_stream is None:
                self._of_stream = stream_row_seconds(self._machine)
        sums = dict(zip(_SUMS, drams.transpose(2, 1, 0), strict=True))
        lines = sums["reads"][0] + sums["writes"][0]
        per_line = np.divide(1.0, lines, out=np.zeros_like(lines), where=lines >= FEWEST_LINES)
        rows = 1e-12 * (sums["time_ps"][0] - sums["time_ps"][1]) * per_line
        share = np.divide(ddr_lines, lines, out=np.zeros_like(lines), where=lines > 0)
        counts = {name: sums[name][0] * share for name in _ROWS}
        return {"row_s": np.maximum(rows - self._of_stream, 0.0) * (per_line > 0), **counts}


def stream_row_seconds(machine: Machine) -> float:
    """Return the seconds per line that rows cost STREAM's triad on all cores.

    Its three arrays fill the fast memory one after the other from the first frame, and each core has its own
    part of each.
    """
    assert machine.dram is not None
    assert machine.fast_memory is not None
    cores = machine.cores.count.value
    part = machine.fast_memory.size.value // 3 // cores // FRAME_BYTES * FRAME_BYTES
    lines = (
        np.arange(max(1, min(STREAM_PAGES * FRAME_BYTES, part) // LINE_BYTES), dtype=np.uint64) * LINE_BYTES
    )
    requests = []
    for core in range(cores):
        read, also_read, written = (lines + np.uint64((array * cores + core) * part) for array in range(3))
        requests.append(np.stack((read, also_read, written | WRITE), axis=1).ravel())
    outstanding = machine.cores.outstanding_lines.value
    seconds = [_seconds(machine.dram, outstanding, ideal, requests) for ideal in (False, True)]
    return max(0.0, seconds[0] - seconds[1]) / sum(map(len, requests))


def _seconds(dram: Dram, outstanding: int, ideal: bool, requests: list[NDArray[np.uint64]]) -> float:
    return dram.simulator(outstanding=outstanding, ideal=ideal).run(*requests).time_s
