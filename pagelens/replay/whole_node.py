"""Replays a program through all of a node (TLB and walks, caches and snoop filter, DRAM) and counts by phase.

This is for machines without a memory-side cache. docs/node-replay.md states the model.
"""

import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import ALL_SETS, KERNEL, Workload
from pagelens.address.units import LINE_BYTES
from pagelens.errors import UsageError
from pagelens.frames.numa_rule import FIRST_TOUCH, cores_of_threads
from pagelens.machine import Machine
from pagelens.machine.caches import Levels, build_caches
from pagelens.machine.tlb import core_tlb
from pagelens.replay.mechanisms import L2_CONFLICTS, L3_CONFLICTS, PAGE_WALKS, SNOOP_FILTER
from pagelens.replay.numa import NumaLines, PageUsers, numa_lines, page_users
from pagelens.replay.stretches import (
    Counts,
    Estimates,
    Excerpts,
    FirstFetches,
    estimates,
    first_fetches,
    scales,
)

# A long phase is simulated in stretches. Before each, the lines that the run used last are recalled, as many
# as the caches hold and a quarter more. So the caches have what they would have if all of the run had gone
# through them, and nothing of the stretch before. If these are more than `REFILLED_ABOVE`, they do not go
# through the caches one by one, but refill them. The caches are empty then, so half as many again are
# recalled, which fill nearly all sets. A short warm-up follows, for the order of ranks and threads. The run
# has some `STRETCHES` stretches, or fewer if caches are large, divided by the phases' lines. A phase below
# `SMALL_SHARE` of the run has few short ones, which warm L2s up by a quarter of their lines.
STRETCHES, FEWEST_STRETCHES, MOST_SIMULATED = 16, 6, 1 << 22
FILLS, WARM_UP, FEWEST_RECALLED, MOST_COUNTED = 1.25, 1 << 16, 1 << 16, 1 << 19
REFILLED_ABOVE, REFILLS = 1 << 21, 1.5
FEWEST_OF_PHASE, STRETCHES_OF_SMALL, MOST_WARM_UP_OF_SMALL = 2, 4, 1 << 17
SMALL_SHARE = 0.05
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2  # its multiples keep apart modulo 1

_TWINS = {L2_CONFLICTS: "l2", L3_CONFLICTS: "l3", SNOOP_FILTER: "snoop_filter"}  # of Levels.ideal


def mechanisms_by_replay(machine: Machine) -> tuple[str, ...]:
    """Return the mechanisms that a replay of an idealised machine can remove.

    Each can be removed alone.
    """
    present = {L3_CONFLICTS: machine.l3, SNOOP_FILTER: machine.snoop_filter, PAGE_WALKS: machine.page_walk}
    return (L2_CONFLICTS, *(name for name, part in present.items() if part is not None))


def node_model(
    machine: Machine,
    without: Collection[str] = (),
    rows: Sequence[bool] = (True,),
    seed: int = 0,
    writes_at_once: bool = False,
    ideal_l3_beside: bool = False,
    ideal_share: float = 1.0,
) -> _core.NodeModel:
    """Return the machine without some of `mechanisms`, with its DRAM, if stated, once for each of `rows`.

    An entry of `rows` says if the DRAM has row conflicts. `seed` is that of random replacement.
    `writes_at_once`, `ideal_l3_beside` and `ideal_share` are those of `Levels`.
    """
    tlb = host_page = None
    if machine.page_walk is not None:  # page tables take their frames even if nothing walks them
        tlb = core_tlb(machine.tlb, machine.page_walk, ideal=PAGE_WALKS in without)
        host_page = machine.page_walk.host_page_size
    drams = []
    if machine.dram is not None:
        outstanding = machine.cores.outstanding_lines.value
        drams = [machine.dram.core(outstanding=outstanding, ideal=not conflicts) for conflicts in rows]
    caches = caches_below_l1(machine, without, seed, writes_at_once, ideal_share, ideal_l3_beside)
    return _core.NodeModel(
        cores=machine.cores.count.value, caches=caches, tlb=tlb, drams=drams, host_page=host_page
    )


def caches_below_l1(
    machine: Machine,
    without: Collection[str] = (),
    seed: int = 0,
    writes_at_once: bool = False,
    ideal_share: float = 1.0,
    ideal_l3_beside: bool = False,
) -> _core.CacheHierarchy:
    """Return the caches of the cores that share an L3, or of all cores, without some of `mechanisms`.

    `writes_at_once`, `ideal_share` and `ideal_l3_beside` are those of `Levels`.
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
            ideal_l3_beside=ideal_l3_beside,
        ),
        seed,
    )


def cached_lines(machine: Machine, cores: int) -> tuple[int, int]:
    """Return how many lines the L2s of the cores of so many threads hold, and how many their L3s."""
    used = _used_cores(machine, cores)
    second = machine.l2.size.value * len(np.unique(used // machine.l2.shared_by.value))
    third = 0
    if machine.l3 is not None:
        sharing = machine.l3.shared_by or machine.cores.count
        third = machine.l3.size.value * len(np.unique(used // sharing.value))
    return second // LINE_BYTES, third // LINE_BYTES


def _used_cores(machine: Machine, threads: int) -> NDArray[np.uint32]:
    """Return the core of each of so many threads, which are spread over all NUMA nodes."""
    if machine.topology.nodes == 1:
        return np.arange(threads, dtype=np.uint32)
    return cores_of_threads(machine, threads, FIRST_TOUCH)


def excerpts(
    machine: Machine,
    lines: Sequence[int],
    cores: int,
    stretches_of_interval: int | None = None,
    cleared: Sequence[int] | None = None,
) -> Excerpts:
    """Return the parts of each phase to simulate; zeros mean the whole phase.

    `lines` are those that the phases move on all of the `cores` used. With `stretches_of_interval`, phases
    are intervals of one run, which find in the caches what the intervals before left. Each then has that many
    short stretches.

    Stretches keep irrational distances, so those of a loop lie at different places of it, and those of phases
    that move the same lines lie at different lines.

    The kernel clears at most `cleared` lines in each phase, and a part of them in each stretch. If these are
    more than the phase moves, its stretches are shorter by this ratio, so they clear as many as planned.
    """
    second, third = cached_lines(machine, cores)
    short = min(max(second // 4, FEWEST_RECALLED), MOST_WARM_UP_OF_SMALL)
    recalled = max(int(FILLS * (second + third)), FEWEST_RECALLED)
    if recalled > REFILLED_ABOVE:
        recalled = int(REFILLS * (second + third))
    in_all = min(max(MOST_SIMULATED // recalled, FEWEST_STRETCHES), STRETCHES)
    found = []
    for number, of_phase in enumerate(lines, start=1):
        share = of_phase / max(1, sum(lines))
        if stretches_of_interval is not None or share < SMALL_SHARE:
            count, recall = stretches_of_interval or STRETCHES_OF_SMALL, 0
            warm_up, counted = short, short // 2
        else:
            count, recall = max(FEWEST_OF_PHASE, math.ceil(in_all * share)), recalled
            warm_up, counted = WARM_UP, min(recalled // 4, MOST_COUNTED)
        if cleared is not None and cleared[number - 1] > of_phase:
            shorter = of_phase / cleared[number - 1]
            warm_up, counted = int(warm_up * shorter), max(1, int(counted * shorter))
        period, begin = spaced(number, of_phase, count, warm_up + counted)
        found.append((period, warm_up + counted, warm_up, begin, recall) if period else (0, 0, 0, 0, 0))
    return found


def spaced(number: int, lines: int, count: int, stretch: int) -> tuple[int, int]:
    """Return period and begin of `count` stretches in the lines of the number-th phase.

    They are zeros if the stretches would be the whole phase.
    """
    period = int(lines / (count + GOLDEN_RATIO))
    if period <= stretch:
        return 0, 0
    return period, int(number * GOLDEN_RATIO % 1 * (period - stretch))


@dataclass(frozen=True)
class Parts:
    """What replays need of a program: the simulated lines, in order."""

    program: _core.Program
    excerpts: Excerpts
    first: FirstFetches | None = None

    @property
    def in_stretches(self) -> bool:
        """Whether only stretches of the program are simulated."""
        return any(period for period, *_ in self.excerpts)

    @property
    def refilled(self) -> bool:
        """Whether a stretch refills the caches, which takes longer than the stretch itself."""
        return any(recalled > REFILLED_ABOVE for *_, recalled in self.excerpts)

    @property
    def writes_at_once(self) -> bool:
        """Whether lines count as written when they become dirty.

        Stretches that recall no lines do not know which of those that they evict were written before.
        """
        return any(period and not recalled for period, *_, recalled in self.excerpts)

    def first_in(self, sets: int) -> FirstFetches | None:
        """Return the first fetches at these places of pages (`FirstFetches.sampled`), if they are known."""
        return self.first.sampled(sets) if self.first is not None else None


def simulated_parts(
    whole: _core.Program,
    machine: Machine,
    ranks: int,
    stretches_of_interval: int | None = None,
) -> Parts:
    """Return the parts of `ranks` copies of a program, which is given with all its lines in order."""
    moved = _core.lines_by_phase(whole, ranks)
    cleared = None
    if stretches_of_interval is None:
        cleared = [ranks * int(of_phase) for of_phase in np.asarray(_core.moved_by_phase(whole))[:, 3]]
    chosen = excerpts(machine, moved, ranks * whole.threads, stretches_of_interval, cleared)
    return Parts(_excerpted(whole, machine, ranks, chosen), chosen)


def every_third(chosen: Excerpts) -> Excerpts:
    """Return a third of the stretches of each phase, and at least one: the second of three each time."""
    return [(3 * period, stretch, warm_up, period + begin, recalled) if period else (0, 0, 0, 0, 0)
            for period, stretch, warm_up, begin, recalled in chosen]  # fmt: skip


def _excerpted(whole: _core.Program, machine: Machine, ranks: int, chosen: Excerpts) -> _core.Program:
    if not any(period for period, *_ in chosen):
        return whole
    groups = []
    if any(recalled > REFILLED_ABOVE for *_, recalled in chosen):
        sharing = (
            (machine.l3.shared_by or machine.cores.count) if machine.l3 is not None else machine.l2.shared_by
        )
        groups = (_used_cores(machine, ranks * whole.threads)[: whole.threads] // sharing.value).tolist()
    return _core.excerpted(whole, ranks, chosen, groups)


@dataclass(frozen=True)
class _Made:
    parts: Parts
    compulsory: NDArray[np.float64]
    moved: NDArray[np.float64]
    taken: NDArray[np.uint64]
    users: PageUsers | None


class NodePrograms:
    """The parts of a workload for `ranks` copies on a machine, made when they are first used."""

    def __init__(self, workload: Workload, machine: Machine, ranks: int) -> None:
        self._workload, self._machine, self._ranks = workload, machine, ranks
        self._lock = threading.Lock()
        self._made: dict[int, _Made] = {}  # by offset
        self._some: dict[int, Parts] = {}  # by offset

    def parts(self, offset_bytes: int = 0, cancel: _core.CancelFlag | None = None) -> Parts:
        """Return the parts with the arrays at that offset (`Workload.compile`). Any thread may call this."""
        return self._of(offset_bytes, cancel).parts

    def some_stretches(self, offset_bytes: int, cancel: _core.CancelFlag | None = None) -> Parts:
        """Return the parts with a third of their stretches. Any thread may call this."""
        chosen = every_third(self.parts(offset_bytes, cancel).excerpts)
        with self._lock:
            if offset_bytes not in self._some:
                whole = self._workload.lines_in_order(self._machine, offset_bytes, cancel)
                first, _ = first_fetches(whole, self._ranks, chosen)
                program = _excerpted(whole, self._machine, self._ranks, chosen)
                self._some[offset_bytes] = Parts(program, chosen, first)
            return self._some[offset_bytes]

    def changed(
        self, offset_bytes: int, change: Callable[[_core.Program], _core.Program], cancel: _core.CancelFlag
    ) -> Parts:
        """Return the parts of what `change` makes of the program, whose lines stay in their order."""
        whole = change(self._workload.lines_in_order(self._machine, offset_bytes, cancel))
        parts = simulated_parts(whole, self._machine, self._ranks)
        return replace(parts, first=self.parts(offset_bytes, cancel).first)

    def users(self, offset_bytes: int = 0, cancel: _core.CancelFlag | None = None) -> PageUsers | None:
        """Return who uses each page, by all lines of the program; None on a machine of one NUMA node."""
        return self._of(offset_bytes, cancel).users

    def compulsory(self, offset_bytes: int = 0) -> NDArray[np.float64]:
        """Return the lines [phase, 2] that memory reads and writes below infinite caches."""
        return self._of(offset_bytes).compulsory

    def moved(self) -> NDArray[np.float64]:
        """Return the counts [phase, 6] of all copies, as `_core.moved_by_phase` has them."""
        return self._of(0).moved

    def taken(self) -> NDArray[np.uint64]:
        """Return the rows of `_core.Program.taken_lines`, of one copy."""
        return self._of(0).taken

    def _of(self, offset_bytes: int, cancel: _core.CancelFlag | None = None) -> _Made:
        with self._lock:
            if offset_bytes not in self._made:
                whole = self._workload.lines_in_order(self._machine, offset_bytes, cancel)
                parts = simulated_parts(whole, self._machine, self._ranks)
                first, least = first_fetches(whole, self._ranks, parts.excerpts)
                moved = self._ranks * np.asarray(_core.moved_by_phase(whole), dtype=np.float64)
                parts = replace(parts, first=first)
                taken, users = np.asarray(whole.taken_lines), page_users(whole, self._machine)
                self._made[offset_bytes] = _Made(parts, least, moved, taken, users)
            return self._made[offset_bytes]


@dataclass(frozen=True)
class NodeCounts:
    """The counts of one replay, scaled up to the whole run: float64[phase] by name."""

    whole: Estimates
    left_out: Estimates  # the estimates of each phase without each of its stretches
    object_reads: NDArray[np.float64]  # [phase, object] lines of memory
    object_writes: NDArray[np.float64]
    simulated: float  # share of the run's lines
    huge_pages: int
    small_fallbacks: int
    numa: NumaLines | None  # None: one NUMA node
    filter_evicts: bool  # the snoop filter, at any time: where not, a machine without it counts the same

    @property
    def counts(self) -> Counts:
        """The counts of caches and TLBs."""
        return self.whole.counts

    @property
    def object_lines(self) -> NDArray[np.float64]:
        """The lines [phase, object] that memory reads and writes."""
        return self.object_reads + self.object_writes


def replay_node(
    parts: Parts,
    placement: _core.Placement,
    model: _core.NodeModel,
    *,
    ranks: int,
    sets: int = ALL_SETS,
    translating: bool = True,
    caching: bool = True,
    numa: _core.NumaPlacing | None = None,
    cancel: _core.CancelFlag | None = None,
) -> NodeCounts:
    """Count what `ranks` copies of a program do. The GIL is released meanwhile. Raises _core.Cancelled.

    Through the caches go the lines in `sets` (bit i: those at place i of their pages). Where that is not all,
    TLBs look up what ops touch (nothing, unless `translating`), and the lines that walks ask for are left
    out. Without `caching` only TLBs count.
    """
    with _of_ranks(ranks):
        found = _core.replay_node(
            parts.program,
            placement,
            model,
            ranks=ranks,
            excerpts=parts.excerpts,
            sets=sets,
            translating=translating,
            caching=caching,
            refilled_above=REFILLED_ABOVE,
            numa=numa,
            cancel=_core.CancelFlag() if cancel is None else cancel,
        )
    return _node_counts(found, parts.first_in(sets))


def replay_twins(
    parts: Parts,
    placement: _core.Placement,
    models: Sequence[_core.NodeModel],
    *,
    ranks: int,
    sets: int = ALL_SETS,
    numa: _core.NumaPlacing | None = None,
    cancel: _core.CancelFlag | None = None,
) -> list[NodeCounts]:
    """Count as `replay_node` does on each of several machines with the same TLBs, in one pass.

    A machine with an ideal L3 beside its own is followed by what it counts with that one. If only some `sets`
    go through the caches, TLBs translate all lines nevertheless, and walks move their lines in these sets.
    """
    with _of_ranks(ranks):
        found = _core.replay_twins(
            parts.program,
            placement,
            models,
            ranks=ranks,
            excerpts=parts.excerpts,
            sets=sets,
            refilled_above=REFILLED_ABOVE,
            numa=numa,
            cancel=_core.CancelFlag() if cancel is None else cancel,
        )
    first = parts.first_in(sets)
    return [_node_counts(each, first) for each in found]


@contextmanager
def _of_ranks(ranks: int) -> Iterator[None]:
    try:
        yield
    except _core.OutOfMemory as error:
        raise UsageError(f"--ranks: {ranks}: {error}") from None


def _node_counts(found: _core.NodeCounters, first: FirstFetches | None) -> NodeCounts:
    lines, cleared = np.asarray(found.lines, dtype=np.float64).T[:2]
    counted = np.asarray(found.stretches, dtype=np.float64).reshape(-1, 4)[:, 2].sum()
    of_phase = scales(found)
    scale = of_phase[:, None]
    reads = np.asarray(found.object_reads, dtype=np.float64)
    if first is None:
        reads = reads * scale
    else:  # a line that two objects share may be fetched first for the other one
        reads = np.maximum(reads - first.of_object_in_stretches, 0) * scale + first.of_object
    writes = np.asarray(found.object_writes, dtype=np.float64) * scale
    writes[:, KERNEL] += cleared
    whole, left_out = estimates(found, first)
    return NodeCounts(
        whole=whole,
        left_out=left_out,
        object_reads=reads,
        object_writes=writes,
        numa=numa_lines(found, of_phase),
        simulated=float(counted / lines.sum()) if lines.sum() else 1.0,
        huge_pages=found.huge_pages,
        small_fallbacks=found.small_fallbacks,
        filter_evicts=found.sf_evictions > 0,
    )
