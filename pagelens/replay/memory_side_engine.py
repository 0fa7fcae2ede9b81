"""The engine for nodes whose fast memory is a cache: one replay of sampled slots, beside twins of the cache.

The misses of the memory-side cache are divided by comparison with two twins that are fed the same stream. An
infinite cache has the compulsory misses, which are the first use of each line. A fully associative one of the
same size, with random replacement, is the ideal twin (docs/decisions/ideal-twin.md). Capacity is what the
ideal twin misses beyond the compulsory misses. Conflicts are what the machine misses beyond the ideal twin.
Each carries the write-backs of its own dirty victims (Hill, Smith: Evaluating Associativity in CPU Caches,
IEEE Trans. Comput. 38 (1989), 1612-1630).

The cost of dirty victims is a third mechanism. Page walks are a mechanism if the machine file states them,
and so is a core frequency that differs from the median node's. If cores share an L3, further replays on
machines that are ideal there remove its conflicts, those of L2, and the evictions by its snoop filter. If the
machine file describes DRAM's banks, rows are a mechanism too: their cost per line is found once, on the
machine as it is, and applied to the lines that are left without the other mechanisms.
"""

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.address.units import FRAME_BITS, FRAME_BYTES
from pagelens.machine import TRANSLATION_COUNTS, CoreTimes, Machine, RankLoad, Times, modelled_times
from pagelens.replay.assumed import times_if_assumed
from pagelens.replay.bounds import Bounds, bounds
from pagelens.replay.core_model import core_model
from pagelens.replay.dram_rows import RowsBehind
from pagelens.replay.mechanisms import (
    CAPACITY,
    CONFLICTS,
    FREQUENCY,
    PAGE_WALKS,
    ROW_CONFLICTS,
    TWO_WAY,
    WRITE_BACKS,
    subsets,
)
from pagelens.replay.memory_side import (
    COUNTERS,
    SAMPLED_SLOTS,
    by_phase,
    mechanisms_of_caches,
    replay,
    sampled_pages,
    sampled_slots,
)
from pagelens.replay.ordered_lines import InOrder, rows_are_timed
from pagelens.replay.placement import Placement
from pagelens.replay.run import (
    Attributed,
    Floats,
    IfAssumed,
    Removed,
    Run,
    Sampling,
    instructions,
    lines_past_l1,
)
from pagelens.replay.translation import Translations

Counts = Mapping[str, Floats]

# Caches that are fed the same stream as the machine's own, and their counts. `first` is the infinite one.
TWINS = ("two_way", "ideal", "first")
TWIN_COUNTS = ("misses", "read_misses", "ddr_writes")
# The time model's columns for the counts of a twin. Each miss is also a read of DDR.
TWIN_COLUMNS = {
    "msc_misses": "misses",
    "msc_read_misses": "read_misses",
    "ddr_reads": "misses",
    "ddr_writes": "ddr_writes",
}
SLOT_CELLS = 2048  # of the map of slots that a run keeps


class MemorySideEngine:
    """The engine of machines in cache mode."""

    def __init__(
        self,
        workload: Workload,
        machine: Machine,
        ranks: int,
        seed: int,
        cores_used: int,
        past_caches: bool,
        only_differences: bool,
        vary_assumed: bool = False,
    ) -> None:
        self._workload, self._machine, self._ranks = workload, machine, ranks
        self._seed, self._cores_used, self._past_caches = seed, cores_used, past_caches
        self._vary_assumed = vary_assumed
        self._sampled = sampled_slots(machine, workload.footprint_bytes * ranks // FRAME_BYTES)
        in_order = InOrder(workload, machine, ranks)
        self._translations = Translations(workload, machine, ranks, in_order)
        self._rows = RowsBehind(in_order, machine)
        model = None if past_caches else core_model(workload.samples, len(workload.phases), machine)
        self._core_model, self._core = model, model.times if model is not None else None
        self._only_differences = only_differences
        self._of_caches = () if past_caches or only_differences else mechanisms_of_caches(machine)
        self._past_l1: Counts | None = None  # made when it is first used
        self._takes_larger: dict[tuple[int, int], bool] = {}  # by log2 of the size of pages, and offset
        self._lock = threading.Lock()
        self._arithmetic = () if only_differences else mechanisms(machine)
        self.mechanisms = (*self._of_caches, *self._arithmetic)
        self.attribution_replays = bool(self._of_caches)
        self._more = workload.source == "declared" or self._sampled < SAMPLED_SLOTS
        self.sampling = Sampling(self._sampled, sampled_pages(machine, self._more)[0])

    def past_l1(self) -> Counts:
        """Return the columns of `lines_past_l1`, or none if no width between caches is stated.

        They are those of pages of 4 KiB: a program for larger ones may have passed an L2, too.
        """
        if self._machine.l2.width is None:
            return {}
        with self._lock:
            if self._past_l1 is None:
                program = self._workload.compile(self._machine, FRAME_BITS)
                self._past_l1 = lines_past_l1(self._moved(program))
            return self._past_l1

    def as_seen(self, placement: Placement, cancel: _core.CancelFlag) -> Placement:
        """Return the placement as one of 4 KiB pages if no part of the program is worth a larger page.

        Else L2s would be replayed by virtual addresses, as if each large page were there.
        """
        bits, offset = placement.page_bits, placement.offset_bytes
        if bits == FRAME_BITS:
            return placement
        if (bits, offset) not in self._takes_larger:
            pages = self._workload.compile(placement.machine, bits, offset, cancel).pages
            _, used = np.unique(pages >> np.uint64(bits - FRAME_BITS), return_counts=True)
            least = (1 << (bits - FRAME_BITS)) // _core.LARGE_PAGE_LEAST_SHARE
            self._takes_larger[bits, offset] = bool(np.any(used >= least))
        return placement if self._takes_larger[bits, offset] else replace(placement, page_bits=FRAME_BITS)

    def _moved(self, program: _core.Program) -> Floats:
        return self._ranks * np.asarray(_core.moved_by_phase(program), dtype=np.float64)

    def bounds(self) -> Bounds:
        """Return the bounds, from the program for pages of 4 KiB."""
        program = self._workload.compile(self._machine, FRAME_BITS)
        moved = self._moved(program)
        executed = instructions(self._ranks, program.instructions, program.phases)
        return bounds(
            moved,
            executed,
            self._machine,
            self._cores_used,
            "memory-side cache",
            self._core,
            self._workload.rank_load,
        )

    def run(self, placement: Placement, without: Collection[str], cancel: _core.CancelFlag) -> Run:
        """Run one placement. Rows are timed unless they are removed."""
        placed = _Placed(self, placement, cancel)
        placed.begin_translation()
        removed = tuple(name for name in self._of_caches if name in without)
        rows = ROW_CONFLICTS not in without and not self._only_differences
        counters = placed.replay(removed, rows)
        counts = placed.with_rows(counters, placed.counts(counters))
        left: Counts = counts
        if arithmetic := set(without) & set(self._arithmetic):
            left = remaining(frozenset(self._arithmetic) - arithmetic, counts)
        return placed.run(counters, left, placed.times(left, FREQUENCY in without))

    def attribute(self, placement: Placement, cancel: _core.CancelFlag) -> Attributed:
        """Make one replay for each set of the caches' mechanisms.

        All other sets are arithmetic on its counts.
        """
        placed = _Placed(self, placement, cancel)
        placed.begin_translation()
        counters = placed.replay((), rows=True)
        counts = placed.with_rows(counters, placed.counts(counters))
        seconds: dict[Removed, Floats] = {}
        for of_caches in subsets(self._of_caches):
            found = counts
            if of_caches:
                found = placed.counts(placed.replay(of_caches, rows=False)) | {"row_s": counts["row_s"]}
            for removed, of_phases in counterfactuals(
                placed.machine, found, self._cores_used, placed.frequency_factor, self._core, placed.ranks
            ):
                seconds[*of_caches, *removed] = of_phases
        two_way = placed.times({**counts, **of_twin(counts, "two_way")}).time_s
        return Attributed(placed.run(counters, counts, placed.times(counts)), seconds, {TWO_WAY: two_way})


class _Placed:
    """A placement, and what all its replays share."""

    def __init__(self, engine: MemorySideEngine, placement: Placement, cancel: _core.CancelFlag) -> None:
        self._engine, self._cancel = engine, cancel
        self._placement = placement = engine.as_seen(placement, cancel)
        self.machine = placement.machine
        self._program = engine._workload.compile(
            placement.machine, placement.page_bits, placement.offset_bytes, cancel
        )
        self.ranks = engine._workload.rank_load
        self.frequency_factor = self.machine.cores.frequency_factor(engine._seed, placement.node)

    def replay(self, without: tuple[str, ...], rows: bool) -> _core.Counters:
        """Replay without some mechanisms of the caches in front of the memory-side one.

        `rows` says if DRAM is timed.
        """
        engine = self._engine
        return replay(
            self._program,
            self.machine,
            self._placement.frames,
            self._placement.page_bits,
            ranks=engine._ranks,
            seed=engine._seed,
            node=self._placement.node,
            ideal=not engine._only_differences,
            sampled=engine._sampled,
            without=without,
            past_caches=engine._past_caches,
            more=engine._more,
            rows=engine._rows.model(self._placement, self._program, self._cancel) if rows else None,
            cancel=self._cancel,
        )

    def begin_translation(self) -> None:
        """Let another thread count what translation costs, beside the replay."""
        engine, placement = self._engine, self._placement
        if not engine._only_differences:
            engine._translations.begin(placement.page_bits, placement.offset_bytes, self._cancel)

    def counts(self, counters: _core.Counters) -> dict[str, Floats]:
        """Return the counts [p] by the names of `Ensemble.placements`."""
        engine, placement = self._engine, self._placement
        counts = {name: values.astype(np.float64) for name, values in by_phase(counters).items()}
        counts["instructions"] = instructions(engine._ranks, self._program.instructions, counters.phases)
        counts |= engine.past_l1()
        counts["first_ddr_writes"] = np.zeros(counters.phases)  # an infinite cache pushes nothing out
        wanted = counters.huge_pages + counters.small_fallbacks
        small = counters.small_fallbacks / max(1, wanted)
        if engine._only_differences:
            return counts | dict.fromkeys(TRANSLATION_COUNTS, np.zeros(counters.phases))
        return {
            **counts,
            **engine._translations.counts(placement.page_bits, placement.offset_bytes, small, self._cancel),
        }

    def with_rows(self, counters: _core.Counters, counts: dict[str, Floats]) -> dict[str, Floats]:
        """Add the cost of DRAM rows per line, if they were timed."""
        return counts | self._engine._rows.counts(counters, counts["ddr_reads"] + counts["ddr_writes"])

    def times(self, counts: Counts, of_median_node: bool = False) -> Times:
        """Return the seconds at this node's core frequency, or at the median node's."""
        factor = 1.0 if of_median_node else self.frequency_factor
        engine = self._engine
        return modelled_times(
            self.machine,
            counts,
            engine._cores_used,
            "memory-side cache",
            factor,
            engine._core,
            ranks=self.ranks,
        )

    def run(self, counters: _core.Counters, counts: Counts, times: Times) -> Run:
        """Return the result of one replay."""
        ideal = self.machine.ideal
        of_run = {
            "conflict_share": 0.0 if ideal else counters.residency.conflict_share,
            "large_pages": float(counters.huge_pages),
            "large_pages_missing": float(counters.small_fallbacks),
        }
        sums = counters.table.astype(np.float64)
        of = {name: sums[:, :, index] for index, name in enumerate(COUNTERS)}
        return Run(
            counts={**counts, **{name: np.full(counters.phases, value) for name, value in of_run.items()}},
            times=times,
            object_accesses=of["msc_reads"] + of["msc_writes"],
            object_misses=of["msc_misses"],
            object_conflict_evictions=of["conflict_evictions"],
            collisions=None if ideal else counters.collisions,
            pages_per_slot=None if ideal else _pages_per_slot(counters, self.machine),
            if_assumed=self._if_assumed(counts),
        )

    def _if_assumed(self, counts: Counts) -> IfAssumed:
        engine = self._engine
        if not engine._vary_assumed:
            return {}
        return times_if_assumed(
            self.machine,
            counts,
            engine._cores_used,
            "memory-side cache",
            self.frequency_factor,
            engine._core_model,
            ranks=self.ranks,
        )


def _pages_per_slot(counters: _core.Counters, machine: Machine) -> Floats | None:
    bins = counters.residency.map
    if bins.size == 0:
        return None
    cells = min(SLOT_CELLS, bins.size)
    pages = bins.reshape(cells, -1).sum(axis=1, dtype=np.float64)
    return np.asarray(pages * cells / machine.slots)


def counterfactuals(
    machine: Machine,
    counts: Counts,
    cores_used: int,
    frequency_factor: float,
    core: CoreTimes | None = None,
    ranks: RankLoad | None = None,
) -> Iterator[tuple[Removed, Floats]]:
    """Yield seconds [p] without each set of `mechanisms`, from the counts of one replay."""
    everything = mechanisms(machine)
    for removed in subsets(everything):
        left = remaining(frozenset(everything) - set(removed), counts)
        factor = 1.0 if FREQUENCY in removed else frequency_factor
        times = modelled_times(machine, left, cores_used, "memory-side cache", factor, core, ranks=ranks)
        yield removed, times.time_s


def mechanisms(machine: Machine) -> tuple[str, ...]:
    """Return the mechanisms of the machine file that arithmetic on counts can remove."""
    stated = {
        PAGE_WALKS: machine.page_walk is not None,
        ROW_CONFLICTS: rows_are_timed(machine),
        FREQUENCY: machine.cores.frequency_spread is not None,
    }
    return (CAPACITY, CONFLICTS, WRITE_BACKS, *(name for name, is_in_play in stated.items() if is_in_play))


def of_twin(counts: Counts, twin: str) -> Counts:
    """Return the time model's columns for one of TWINS."""
    return {column: counts[f"{twin}_{count}"] for column, count in TWIN_COLUMNS.items()}


def remaining(present: frozenset[str], counts: Counts) -> Counts:
    """Return counts [p] with only the mechanisms `present`.

    No count falls below the compulsory one. Removing conflicts alone could do that where the fully
    associative twin is the worse cache.
    """
    left = dict(counts)
    ideal, infinite = of_twin(counts, "ideal"), of_twin(counts, "first")
    conflicts, capacity = float(CONFLICTS in present), float(CAPACITY in present)
    for name in TWIN_COLUMNS:
        least = infinite[name]
        left[name] = np.maximum(
            least + capacity * (ideal[name] - least) + conflicts * (counts[name] - ideal[name]), least
        )
    if WRITE_BACKS not in present:
        left["ddr_writes"] = np.zeros_like(left["ddr_writes"])
    if PAGE_WALKS not in present:
        left |= dict.fromkeys(TRANSLATION_COUNTS, np.zeros_like(left["ddr_writes"]))
    if ROW_CONFLICTS not in present:
        left["row_s"] = np.zeros_like(left["ddr_writes"])
    return left
