"""One replay through all of a node: TLB and walks, caches and snoop filter, DRAM; counts by phase out.

For machines without a memory-side cache; docs/node-replay.md states the model.
"""

import math
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import ALL_SETS, Workload
from pagelens.address.units import LINE_BYTES
from pagelens.errors import UsageError
from pagelens.machine import Machine
from pagelens.machine.caches import Levels, build_caches
from pagelens.machine.tlb import core_tlb
from pagelens.replay.mechanisms import L2_CONFLICTS, L3_CONFLICTS, PAGE_WALKS, SNOOP_FILTER

Counts = Mapping[str, NDArray[np.float64]]
Excerpts = Sequence[
    tuple[int, int, int, int, int]
]  # a phase each, in lines of all ranks (core/replay/excerpt.hpp)

# Of a long phase, stretches at many places of it are simulated. Each warms the L2s up by a quarter of their
# lines, within limits, and counts half as many. Before the first the phase fills the caches with its own, up
# to a limit. A phase below `SMALL_SHARE` of the run has fewer stretches, and finds what the others left.
STRETCHES, STRETCHES_OF_SMALL = 16, 4
FEWEST_WARM_UP, MOST_WARM_UP = 1 << 16, 1 << 17
FILLS, MOST_FILLED = 1.25, 1 << 21  # as many lines as the caches hold, at most
SMALL_SHARE = 0.1
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2  # its multiples keep apart modulo 1

_CACHES = tuple(_core.cache_counter_names())
_DRAM = tuple(_core.dram_sum_names())
_TWINS = {L2_CONFLICTS: "l2", L3_CONFLICTS: "l3", SNOOP_FILTER: "snoop_filter"}  # of Levels.ideal


def mechanisms_by_replay(machine: Machine) -> tuple[str, ...]:
    """What can be taken from the machine by a replay of its own, each alone: it is idealised then."""
    present = {L3_CONFLICTS: machine.l3, SNOOP_FILTER: machine.snoop_filter, PAGE_WALKS: machine.page_walk}
    return (L2_CONFLICTS, *(name for name, part in present.items() if part is not None))


def node_model(
    machine: Machine,
    without: Collection[str] = (),
    rows: Sequence[bool] = (True,),
    seed: int = 0,
    in_stretches: bool = False,
) -> _core.NodeModel:
    """The machine without some of `mechanisms`; its DRAM, if stated, once for each of `rows`.

    rows: with row conflicts, or the twin without them. `seed` is that of random replacement. `in_stretches`:
    for parts of a program, which write back what they have made dirty themselves (`Levels.writes_at_once`).
    """
    tlb = None
    if machine.page_walk is not None:  # page tables take their frames even if nothing walks them
        tlb = core_tlb(machine.tlb, machine.page_walk, ideal=PAGE_WALKS in without)
    drams = []
    if machine.dram is not None:
        outstanding = machine.cores.outstanding_lines.value
        drams = [machine.dram.core(outstanding=outstanding, ideal=not conflicts) for conflicts in rows]
    caches = caches_below_l1(machine, without, seed, in_stretches)
    return _core.NodeModel(cores=machine.cores.count.value, caches=caches, tlb=tlb, drams=drams)


def caches_below_l1(
    machine: Machine,
    without: Collection[str] = (),
    seed: int = 0,
    writes_at_once: bool = False,
    ideal_share: float = 1.0,
) -> _core.CacheHierarchy:
    """Those of a group of cores that share an L3, or of all cores; without some of `mechanisms`.

    `writes_at_once` and `ideal_share` as `Levels` has them.
    """
    inclusion = machine.l2.inclusion.value if machine.l2.inclusion is not None else None
    sharing = machine.l3.shared_by if machine.l3 is not None else None
    return build_caches(
        machine.cores.count.value if sharing is None else sharing.value,
        machine.l1,
        machine.l2,
        None if inclusion == "exclusive" else inclusion,  # of an L1 that has run before
        machine.l3,
        machine.snoop_filter,
        Levels(
            simulate_l1=False,
            ideal=frozenset(_TWINS[name] for name in without if name in _TWINS),
            writes_at_once=writes_at_once,
            ideal_share=ideal_share,
        ),
        seed,
    )


def cached_lines(machine: Machine) -> tuple[int, int]:
    """Lines that all L2s of the node hold, and all L3s."""
    cores = machine.cores.count.value
    second = machine.l2.size.value * -(-cores // machine.l2.shared_by.value)
    third = 0
    if machine.l3 is not None:
        sharing = machine.l3.shared_by.value if machine.l3.shared_by is not None else cores
        third = machine.l3.size.value * -(-cores // sharing)
    return second // LINE_BYTES, third // LINE_BYTES


def excerpts(
    machine: Machine, lines: Sequence[int], stretches_of_small: int = STRETCHES_OF_SMALL
) -> Excerpts:
    """Which parts of each phase are simulated, where 0 is everything; `lines`: that it moves, of all ranks.

    Stretches keep irrational distances: those of a loop lie at different places of it, and those of phases
    that move the same lines at different lines. What one leaves in the caches would be there for the next,
    else.
    """
    second, third = cached_lines(machine)
    warm_up = min(max(second // 4, FEWEST_WARM_UP), MOST_WARM_UP)
    stretch = warm_up + warm_up // 2
    found = []
    for number, of_phase in enumerate(lines, start=1):
        small = of_phase < SMALL_SHARE * sum(lines)
        fill = 0 if small else min(int(FILLS * (second + third)), MOST_FILLED)
        count = stretches_of_small if small else STRETCHES
        period, begin = spaced(number, of_phase - fill, count, stretch)
        found.append((period, stretch, warm_up, begin, fill) if period else (0, 0, 0, 0, 0))
    return found


def spaced(number: int, lines: int, count: int, stretch: int) -> tuple[int, int]:
    """Period and begin of `count` stretches of so many lines in those of the number-th phase; zeros where
    they would be all of it.
    """
    period = int(lines / (count + GOLDEN_RATIO))
    if period <= stretch:
        return 0, 0
    return period, int(number * GOLDEN_RATIO % 1 * (period - stretch))


@dataclass(frozen=True)
class Parts:
    """What replays need of a program: the lines that are simulated, in order."""

    program: _core.Program
    excerpts: Excerpts

    @property
    def in_stretches(self) -> bool:
        """Whether that is not everything."""
        return any(period for period, *_ in self.excerpts)


def simulated_parts(
    whole: _core.Program,
    machine: Machine,
    ranks: int,
    stretches_of_small: int = STRETCHES_OF_SMALL,
    lines: Sequence[int] | None = None,
) -> Parts:
    """The parts of `ranks` copies of a program, given with all its lines in order; `lines`: how many of one
    copy, by phase, if that is known.
    """
    moved = [ranks * of_phase for of_phase in lines or _core.lines_by_phase(whole)]
    chosen = excerpts(machine, moved, stretches_of_small)
    if not any(period for period, *_ in chosen):
        return Parts(whole, chosen)
    return Parts(_core.excerpted(whole, ranks, chosen), chosen)


class NodePrograms:
    """The parts of a workload for `ranks` copies of it on a machine; made when they are first asked for."""

    def __init__(self, workload: Workload, machine: Machine, ranks: int) -> None:
        self._workload, self._machine, self._ranks = workload, machine, ranks
        self._lock = threading.Lock()
        self._made: dict[int, tuple[Parts, NDArray[np.float64]]] = {}  # by offset

    def parts(self, offset_bytes: int = 0) -> Parts:
        """With the arrays at that offset (`Workload.compile`); from any thread."""
        return self._of(offset_bytes)[0]

    def compulsory(self, offset_bytes: int = 0) -> NDArray[np.float64]:
        """[phase, 2]: lines that memory reads and writes below infinite caches."""
        return self._of(offset_bytes)[1]

    def _of(self, offset_bytes: int) -> tuple[Parts, NDArray[np.float64]]:
        with self._lock:
            if offset_bytes not in self._made:
                whole = self._workload.lines_in_order(self._machine, offset_bytes)
                parts = simulated_parts(whole, self._machine, self._ranks)
                least = np.asarray(_core.compulsory_by_phase(whole), dtype=np.float64)
                self._made[offset_bytes] = (parts, self._ranks * least)
            return self._made[offset_bytes]


@dataclass(frozen=True)
class NodeCounts:
    """What one replay counted, scaled up to the whole run: float64[phase] by name.

    Of the caches the counters of `_core.cache_counter_names()`; of the TLBs stlb_hits, walks and walker_loads
    (entries of page tables that walks read); of DRAM, for each of `rows`, those of `_core.dram_sum_names()`,
    times in seconds as dram_time_s and read_latency_s.
    """

    counts: Counts
    rows: Sequence[Counts]
    object_reads: NDArray[np.float64]  # [phase, object] lines of memory
    object_writes: NDArray[np.float64]
    simulated: float  # share of the run's lines
    huge_pages: int
    small_fallbacks: int

    @property
    def object_lines(self) -> NDArray[np.float64]:
        """[phase, object] lines of memory read and written."""
        return self.object_reads + self.object_writes

    def with_row(self, number: int) -> Counts:
        """All counts, DRAM's of the given twin."""
        return {**self.counts, **(self.rows[number] if self.rows else {})}


def replay_node(
    parts: Parts,
    placement: _core.Placement,
    model: _core.NodeModel,
    *,
    ranks: int,
    sets: int = ALL_SETS,
    translating: bool = True,
    cancel: _core.CancelFlag | None = None,
) -> NodeCounts:
    """Counts of `ranks` copies of a program; raises _core.Cancelled. The GIL is released meanwhile.

    Through the caches go the lines in `sets` (bit i: those at place i of their pages). Where that is not all,
    TLBs look up what ops touch (nothing, unless `translating`), and the lines that walks ask for are left
    out.
    """
    try:
        found = _core.replay_node(
            parts.program,
            placement,
            model,
            ranks=ranks,
            excerpts=parts.excerpts,
            sets=sets,
            translating=translating,
            cancel=cancel or _core.CancelFlag(),
        )
    except _core.OutOfMemory as error:
        raise UsageError(f"--ranks: {ranks}: {error}") from None
    lines = np.asarray(found.lines, dtype=np.float64)
    scale = np.divide(lines[:, 0], lines[:, 1], out=np.ones(len(lines)), where=lines[:, 1] > 0)

    def columns(table: object, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        return dict(zip(names, np.asarray(table, dtype=np.float64).T * scale, strict=True))

    counts = columns(found.caches, _CACHES)
    of_tlb = [(sum(t.stlb_hits), sum(t.walks_completed), sum(t.walker_loads)) for t in found.tlb]
    counts |= columns(of_tlb, ("stlb_hits", "walks", "walker_loads"))
    drams = np.asarray(found.drams, dtype=np.float64)
    rows = []
    for number in range(drams.shape[1]):
        row = columns(drams[:, number], _DRAM)
        row["dram_time_s"] = 1e-12 * row.pop("time_ps")
        row["read_latency_s"] = 1e-12 * row.pop("read_latency_ps")
        rows.append(row)
    return NodeCounts(
        counts=counts,
        rows=rows,
        object_reads=np.asarray(found.object_reads, dtype=np.float64) * scale[:, None],
        object_writes=np.asarray(found.object_writes, dtype=np.float64) * scale[:, None],
        simulated=float(lines[:, 1].sum() / max(1.0, lines[:, 0].sum())),
        huge_pages=found.huge_pages,
        small_fallbacks=found.small_fallbacks,
    )
