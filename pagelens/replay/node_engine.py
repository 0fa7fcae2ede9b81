"""The engine for nodes without a memory-side cache: it replays through TLBs, caches and DRAM.

Replays of machines that are ideal in one respect remove conflicts, snoop filter, page walks or rows, and each
set of them together. What the caches then still lose, because the program does not fit into them, is their
capacity: what memory moves beyond what it would move below infinite caches (compulsory misses: Hill, Smith
1989). Capacity cannot be removed while conflicts remain, so it is removed last, with all others.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import ALL_SETS, Workload
from pagelens.errors import UsageError
from pagelens.frames.numa_rule import FIRST_TOUCH, STAY_S, cores_of_threads
from pagelens.machine import FAULT_COUNTS, Machine, NumaLoad, Times, modelled_times
from pagelens.machine.caches import can_stand_beside
from pagelens.machine.cleared_lines import FIRST_FETCHES
from pagelens.replay import nearly_equal
from pagelens.replay.assumed import times_if_assumed
from pagelens.replay.bounds import Bounds, bounds
from pagelens.replay.core_model import core_model
from pagelens.replay.mechanisms import (
    CACHE_CAPACITY,
    FREQUENCY,
    L3_CONFLICTS,
    NUMA_CROWDING,
    NUMA_LINKS,
    NUMA_SHARED,
    PAGE_WALKS,
    ROW_CONFLICTS,
    SNOOP_FILTER,
    subsets,
)
from pagelens.replay.nearly_equal import Reference, shifted
from pagelens.replay.numa import NumaLines, balancing_seconds, placing, replicated
from pagelens.replay.placement import Placement
from pagelens.replay.run import (
    Attributed,
    Floats,
    IfAssumed,
    LeftOut,
    Removed,
    Run,
    Sampling,
    instructions,
    lines_past_l1,
    read_faults,
)
from pagelens.replay.shared_lines import SharedLines, longest_s, shared_lines
from pagelens.replay.stretches import Estimates
from pagelens.replay.whole_node import (
    NodeCounts,
    NodePrograms,
    Parts,
    mechanisms_by_replay,
    node_model,
    replay_node,
    replay_twins,
)

Counts = Mapping[str, Floats]

NUMA = (NUMA_LINKS, NUMA_CROWDING, NUMA_SHARED)

# A run keeps these counters under the replay's names. Those of memory get the names of all machines.
KEPT = (
    "l3_hits", "l3_misses", "sf_evictions", "l2_back_invalidations", "stlb_hits", "walks", "walker_loads",
    "row_hits", "row_misses", "row_conflicts",
)  # fmt: skip
BALANCING = ("hint_faults", "pages_moved", "pages_demoted")  # columns of machines with several NUMA nodes
RENAMED = {
    "l2_accesses": "l2_references",
    "l2_misses": "l2_misses",
    "l2_write_backs": "l2_writebacks",
    "msc_reads": "dram_reads",
    "msc_writes": "dram_writes",
}


class NodeEngine:
    """The engine of machines in which all of a job's memory lies behind the cores' own caches."""

    attribution_replays = True
    sampling = Sampling(None, None)

    def __init__(
        self,
        workload: Workload,
        machine: Machine,
        ranks: int,
        seed: int,
        cores_used: int,
        vary_assumed: bool = False,
    ) -> None:
        self._workload, self._machine, self._ranks = workload, machine, ranks
        self._seed, self._cores_used, self._vary_assumed = seed, cores_used, vary_assumed
        self._programs = NodePrograms(workload, machine, ranks)
        self._served_by = machine.served_by(workload.job_bytes(ranks))
        self._core = core_model(workload.samples, len(workload.phases), machine)
        self._core_times = self._core.times if self._core is not None else None
        self._has_banks = machine.dram is not None and self._served_by == "DDR"
        self._by_replay = mechanisms_by_replay(machine)
        self._rows = (True,) if self._has_banks else ()
        rows = (ROW_CONFLICTS,) if self._has_banks else ()
        spread = (FREQUENCY,) if machine.cores.frequency_spread is not None else ()
        self._numa: tuple[str, ...] = ()
        if machine.topology.nodes > 1:
            takes_lines = workload.source == "trace" and workload.threads > workload.processes
            self._numa = NUMA if takes_lines else (NUMA_LINKS, NUMA_CROWDING)
        self.mechanisms = (*self._by_replay, *rows, *self._numa, *spread, CACHE_CAPACITY)
        self._alike: dict[tuple[object, ...], NodeCounts] = {}  # by frames, and what is left out
        self._turns: dict[tuple[object, ...], threading.Lock] = {}  # to make one

    def bounds(self) -> Bounds:
        """Return the bounds, from all lines in their order."""
        moved, program = self._programs.moved(), self._programs.parts().program
        executed = instructions(self._ranks, program.instructions, len(moved))
        found = bounds(
            moved,
            executed,
            self._machine,
            self._cores_used,
            self._served_by,
            self._core_times,
            self._workload.rank_load,
        )
        longer_s = longest_s(self._programs.taken(), self._machine.topology, len(moved))
        return replace(found, most_s=found.most_s + longer_s)

    def reference(self, placement: Placement, cancel: _core.CancelFlag) -> Reference | None:
        """Return what other nodes are compared with, or None where a sample cannot say how long one takes.

        An eighth of the lines has no rows of DRAM. Where these could decide the time, the sample is a third
        of the stretches if caches are refilled before each, which makes stretches dear; else there is none.
        A sample saves nothing for a short program, and little where the kernel moves pages or threads,
        because how fast each node is without that takes a replay.
        """
        if _is_by_the_clock(placement):
            return None
        placed = _Placed(self, placement, cancel)
        if not placed.in_stretches:
            return None
        whole = placed.replay((), self._rows)
        decide = nearly_equal.rows_decide(whole.whole, whole.numa, placed.times_with)
        sample = placed.sample() if not decide else placed.some_stretches() if placed.refilled else None
        return Reference(placement.node, placement.alike, whole, sample, decide)

    def run_like(self, placement: Placement, like: Reference, cancel: _core.CancelFlag) -> Run:
        """Replay a sample, and all lines only if the sample takes another time than that of `like`."""
        placed = _Placed(self, placement, cancel)
        near = None
        if placement.node == like.node or placement.alike == like.alike is not None:
            near = like.whole
        elif like.sample is not None:
            sample = placed.some_stretches() if like.of_stretches else placed.sample()
            near = like.of(sample, placed.times_with)
        if near is None:
            return self.run(placement, (), cancel)
        counts = near.whole.with_row(0)
        return placed.run(near, counts, placed.times_with(counts, near.numa))

    def run(self, placement: Placement, without: Collection[str], cancel: _core.CancelFlag) -> Run:
        """Make one replay."""
        placed = _Placed(self, placement, cancel)
        if CACHE_CAPACITY in without and (left := set(self.mechanisms) - set(without)):
            raise UsageError(
                f"without: {CACHE_CAPACITY} is removed with all other mechanisms only; "
                f"add {', '.join(sorted(left))}"
            )
        removed = tuple(name for name in self._by_replay if name in without)
        rows = (ROW_CONFLICTS not in without,) if self._has_banks else ()
        found = placed.replay(removed, rows)
        counts = found.whole.with_row(0)
        of_time = placed.compulsory(found) if CACHE_CAPACITY in without else counts
        times = placed.times(of_time, FREQUENCY in without, found.numa, [n for n in NUMA if n in without])
        return placed.run(found, counts, times)

    def attribute(self, placement: Placement, cancel: _core.CancelFlag) -> Attributed:
        """Replay a machine for each set of mechanisms that takes one. Each has DRAM with rows and without."""
        placed = _Placed(self, placement, cancel)
        both = (True, False) if self._has_banks else ()
        of_rows: list[Removed] = [(), (ROW_CONFLICTS,)] if self._has_banks else [()]
        of_cores: list[Removed] = [(), (FREQUENCY,)] if FREQUENCY in self.mechanisms else [()]
        of_numa = list(subsets(self._numa))
        as_it_is, replayed = placed.without_each(self._by_replay, both)
        seconds: dict[Removed, Floats] = {}
        for removed, found in replayed.items():
            for row, rows in enumerate(of_rows):
                for numa, spread in product(of_numa, of_cores):
                    times = placed.times(found.with_row(row), FREQUENCY in spread, as_it_is.numa, numa)
                    seconds[*removed, *rows, *numa, *spread] = times.time_s
        least = placed.times(placed.compulsory(as_it_is), FREQUENCY in self.mechanisms, as_it_is.numa, NUMA)
        seconds[self.mechanisms] = least.time_s
        counts = as_it_is.whole.with_row(0)
        times = placed.times(counts, numa=as_it_is.numa)
        return Attributed(placed.run(as_it_is, counts, times), seconds, {})


def _ordered(*sets: Collection[str]) -> Removed:
    """Return the union of sets of mechanisms."""
    return tuple(sorted({name for names in sets for name in names}))


def _is_by_the_clock(placement: Placement) -> bool:
    """Say whether the kernel moves pages or threads during the run."""
    rule, nodes = placement.numa, placement.machine.topology.nodes
    return nodes > 1 and (rule.moves_pages or rule.threads == "unbound")


class _Placed:
    """A placement, and what all its replays share."""

    def __init__(self, engine: NodeEngine, placement: Placement, cancel: _core.CancelFlag) -> None:
        self._engine, self._placement, self._cancel = engine, placement, cancel
        self.machine = placement.machine
        self._parts = engine._programs.parts(placement.offset_bytes, cancel)
        self._factor = self.machine.cores.frequency_factor(engine._seed, placement.node)
        program = self._parts.program
        users = engine._programs.users(placement.offset_bytes, cancel)
        self._numa = placing(
            self.machine, program, users, engine._workload.objects, engine._ranks, placement.numa
        )
        self._cores = cores_of_threads(self.machine, engine._ranks * program.threads, placement.numa)
        self._rank_load = engine._workload.rank_load
        by_the_clock = _is_by_the_clock(placement)
        if by_the_clock:
            self._parts = self._by_the_clock()
        self._is_shared = placement.alike is not None and not by_the_clock
        phases = len(engine._workload.phases)
        self._of_program = {
            "instructions": instructions(engine._ranks, program.instructions, phases),
            **lines_past_l1(engine._programs.moved()),
            **read_faults(engine._programs.moved()),
            FIRST_FETCHES: engine._programs.compulsory(placement.offset_bytes)[:, 0],
        }

    def _by_the_clock(self) -> Parts:
        """Return the program with what the kernel does to it, at the speed that it has without."""
        engine, rule = self._engine, self._placement.numa
        without = _Placed(engine, replace(self._placement, numa=FIRST_TOUCH), self._cancel)
        found = without.replay((), engine._rows)
        seconds = without.times(found.whole.with_row(0), numa=found.numa).time_s
        lines = engine._programs.moved()[:, :3].sum(axis=1) / engine._ranks
        line_s = rule.longer * np.divide(seconds, lines, out=np.zeros_like(seconds), where=lines > 0)
        nodes = self.machine.topology.node_of_core[self._cores].tolist()

        def changed(program: _core.Program) -> _core.Program:
            if rule.balanced:
                return _core.with_numa_balancing(program, nodes[: program.threads], line_s.tolist())
            if rule.tiered:
                assert self._numa is not None
                return _core.with_memory_tiers(
                    program, self._placement.frames, self._numa, engine._ranks, line_s.tolist()
                )
            seed = engine._seed + (self._placement.node << 32)
            return _core.with_moving_threads(program, nodes, line_s.tolist(), STAY_S, seed)

        return engine._programs.changed(self._placement.offset_bytes, changed, self._cancel)

    def replay(self, without: tuple[str, ...], rows: tuple[bool, ...]) -> NodeCounts:
        """Replay without some mechanisms. DRAM has row conflicts or not, as each of `rows` says."""
        return self._once((without, rows), lambda: self._replayed(self._parts, without, rows))

    def some_stretches(self) -> NodeCounts:
        """Replay a third of the stretches, with all their lines."""
        engine = self._engine
        parts = engine._programs.some_stretches(self._placement.offset_bytes, self._cancel)
        return self._once("stretches", lambda: self._replayed(parts, (), engine._rows))

    def _once(self, what: object, make: Callable[[], NodeCounts]) -> NodeCounts:
        """Return what `make` counts. It runs once for all nodes on which the job has the same frames."""
        if not self._is_shared:
            return make()
        key, kept = (self._placement.alike, what), self._engine._alike
        with self._engine._turns.setdefault(key, threading.Lock()):
            if key not in kept:
                kept[key] = make()
            return kept[key]

    def _replayed(self, parts: Parts, without: tuple[str, ...], rows: tuple[bool, ...]) -> NodeCounts:
        engine = self._engine
        counted = replay_node(
            parts,
            self._placement.frames,
            node_model(self.machine, without, rows, engine._seed, parts.writes_at_once),
            ranks=engine._ranks,
            numa=self._numa,
            cancel=self._cancel,
        )
        return self._with_copies(counted)

    @property
    def in_stretches(self) -> bool:
        """Whether only stretches of the program are simulated."""
        return self._parts.in_stretches

    @property
    def refilled(self) -> bool:
        """Whether a stretch refills the caches."""
        return self._parts.refilled

    def sample(self) -> NodeCounts:
        """Replay an eighth of the lines, without DRAM. Lines between NUMA nodes are scaled to all lines."""
        return self._once("sample", lambda: self._twins([()], (), nearly_equal.SETS)[()])

    def _with_copies(self, counted: NodeCounts, sets: int = ALL_SETS) -> NodeCounts:
        engine, of_all = self._engine, counted.numa
        if of_all is not None and sets != ALL_SETS:
            of_all = of_all.scaled(ALL_SETS.bit_count() / sets.bit_count())
        lines = replicated(of_all, engine._workload.objects, engine._ranks, self._placement.numa)
        if lines is not None:
            lines = replace(lines, shared=self._shared(lines))
        return replace(counted, numa=lines)

    def _shared(self, lines: NumaLines) -> SharedLines | None:
        topology, engine = self.machine.topology, self._engine
        nodes = topology.node_of_core[self._cores].reshape(engine._ranks, -1)
        return shared_lines(engine._programs.taken(), topology, nodes, *lines.reads.shape[:2])

    def without_each(
        self, mechanisms: tuple[str, ...], rows: tuple[bool, ...]
    ) -> tuple[NodeCounts, dict[Removed, Estimates]]:
        """Return the counts of the machine as it is, and those without each set of mechanisms.

        If the program is simulated in stretches, machines that count nearly the same share a replay
        (pagelens/replay/nearly_equal.py).
        """
        if not self._parts.in_stretches:
            found = self.replays(mechanisms, rows)
            return found[()], {removed: each.whole for removed, each in found.items()}
        as_it_is = self.replay((), rows)
        in_sample = self.replays(mechanisms, (), nearly_equal.SETS)
        samples = {removed: each.whole for removed, each in in_sample.items()}
        if not nearly_equal.is_fair(as_it_is.whole, samples[()]):
            return as_it_is, {r: each.whole for r, each in self.replays(mechanisms, rows).items()}
        of_counts = partial(self.times, numa=as_it_is.numa)
        near = nearly_equal.nearest(as_it_is.whole, samples, of_counts)
        whole: dict[Removed, Estimates] = {(): as_it_is.whole}
        for walks in (False, True):
            alike = [of for of in near.replayed if of and (PAGE_WALKS in of) == walks]
            whole |= {of: each.whole for of, each in self._twins(alike, rows).items()}
        return as_it_is, {
            removed: whole[of] if of == removed else shifted(whole[of], samples[of], samples[removed])
            for removed, of in near.of.items()
        }

    def replays(
        self, mechanisms: tuple[str, ...], rows: tuple[bool, ...], sets: int = ALL_SETS
    ) -> dict[Removed, NodeCounts]:
        """Replay the machine without each set of them. Machines with the same TLBs share one pass.

        Where the snoop filter evicts nothing, the machine without it counts the same. Lines outside of `sets`
        are left out.
        """
        found: dict[Removed, NodeCounts] = {}
        walks = tuple(name for name in mechanisms if name == PAGE_WALKS)
        others = tuple(name for name in mechanisms if name not in (PAGE_WALKS, SNOOP_FILTER))
        for of_tlb in subsets(walks):
            filtered = [_ordered(of_tlb, of) for of in subsets(others)]
            found |= self._twins(filtered, rows, sets)
            if SNOOP_FILTER not in mechanisms:
                continue
            evicting = [of for of in filtered if found[of].filter_evicts]
            found |= {_ordered(of, [SNOOP_FILTER]): found[of] for of in filtered}
            found |= self._twins([_ordered(of, [SNOOP_FILTER]) for of in evicting], rows, sets)
        return {removed: found[_ordered(removed)] for removed in subsets(mechanisms)}

    def _twins(
        self, machines: Sequence[Removed], rows: tuple[bool, ...], sets: int = ALL_SETS
    ) -> dict[Removed, NodeCounts]:
        """Replay the machine without each of these sets, which agree in whether pages are walked for."""
        if not machines:
            return {}
        engine, models, order = self._engine, list[_core.NodeModel](), list[Removed]()
        beside = can_stand_beside(self.machine.l3)
        known = {_ordered(of): of for of in machines}
        for of in known:
            ideal = _ordered(of, [L3_CONFLICTS])
            without_it = _ordered(set(of) - {L3_CONFLICTS})
            if beside and L3_CONFLICTS in of and without_it in known:
                continue  # it stands beside the machine with its own L3
            pair = beside and ideal in known and ideal != of
            models.append(
                node_model(
                    self.machine, of, rows, engine._seed, self._parts.writes_at_once, pair,
                    sets.bit_count() / ALL_SETS.bit_count(),
                )
            )  # fmt: skip
            order += [of, ideal] if pair else [of]
        counted = replay_twins(
            self._parts,
            self._placement.frames,
            models,
            ranks=engine._ranks,
            sets=sets,
            numa=self._numa,
            cancel=self._cancel,
        )
        return {known[of]: self._with_copies(each, sets) for of, each in zip(order, counted, strict=True)}

    def times(
        self,
        counts: Counts,
        of_median_node: bool = False,
        numa: NumaLines | None = None,
        without: Collection[str] = (),
        phase: NDArray[np.int64] | None = None,
    ) -> Times:
        """Return the seconds at this node's core frequency, or at the median node's.

        `numa` says which NUMA nodes the lines go between, and `without` which of `NUMA` do not count. With
        `phase`, the counts are rows, each of a phase.
        """
        factor = 1.0 if of_median_node else self._factor
        rows = slice(None) if phase is None else phase
        columns = {**counts, **{name: values[rows] for name, values in self._of_program.items()}}
        engine = self._engine
        core = engine._core_times
        if core is not None and phase is not None:
            core = core.of_rows(phase)
        return modelled_times(
            self.machine,
            columns,
            engine._cores_used,
            engine._served_by,
            factor,
            core,
            self.load(numa, without, rows),
            self._rank_load.of_rows(rows) if self._rank_load is not None else None,
        )

    def times_with(self, counts: Counts, numa: NumaLines | None) -> Times:
        """Return the seconds of this node, with all of its mechanisms."""
        return self.times(counts, numa=numa)

    def load(
        self,
        numa: NumaLines | None,
        without: Collection[str] = (),
        rows: NDArray[np.int64] | slice = slice(None),
    ) -> NumaLoad | None:
        """Return whose lines the rows have; None on a machine of one NUMA node."""
        if numa is None:
            return None
        load, rule = numa.load(self.machine, self._cores, rows), self._placement.numa
        return replace(
            load,
            without_links=NUMA_LINKS in without,
            without_crowding=NUMA_CROWDING in without,
            taken=None if NUMA_SHARED in without else load.taken,
            busiest_line_s=None if NUMA_SHARED in without else load.busiest_line_s,
            kernel_s=balancing_seconds(numa, rule)[rows] if rule.moves_pages else None,
        )

    def compulsory(self, counted: NodeCounts) -> Counts:
        """Return counts [p] below infinite caches. DRAM moves their lines at its peak bandwidth.

        The program touches as many pages as was counted on the machine as it is.
        """
        reads, writes = self._engine._programs.compulsory(self._placement.offset_bytes).T
        none = ("l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads")
        return {
            **dict.fromkeys(none, np.zeros_like(reads)),
            **{name: counted.whole.counts[name] for name in FAULT_COUNTS},
            "dram_reads": reads,
            "dram_writes": writes,
            "dram_time_s": self.machine.ddr.seconds(reads, writes),
        }

    def run(self, found: NodeCounts, counts: Counts, times: Times) -> Run:
        """Return the result of one replay."""
        of_run: dict[str, Floats | float] = {
            "simulated_share": found.simulated,
            "large_pages": float(found.huge_pages),
            "large_pages_missing": float(found.small_fallbacks),
        }
        if found.numa is not None:
            of_run |= dict(zip(BALANCING, found.numa.balancing.T, strict=True))
        lines = found.object_lines
        return Run(
            counts={
                **self._of_program,
                **{name: counts[name] for name in KEPT if name in counts},
                **{name: np.full(len(times.time_s), value) for name, value in of_run.items()},
                **{name: counts[counted] for name, counted in RENAMED.items()},
                "msc_hits": counts["dram_reads"] + counts["dram_writes"],
            },
            times=times,
            object_accesses=lines,
            object_misses=np.zeros_like(lines),
            object_conflict_evictions=np.zeros_like(lines),
            left_out=LeftOut(
                found.left_out.phase,
                self.times(found.left_out.with_row(0), numa=found.numa, phase=found.left_out.phase),
            ),
            if_assumed=self._if_assumed(counts, found.numa),
            numa=found.numa,
        )

    def _if_assumed(self, counts: Counts, numa: NumaLines | None) -> IfAssumed:
        engine = self._engine
        if not engine._vary_assumed:
            return {}
        columns = {**counts, **self._of_program}
        return times_if_assumed(
            self.machine,
            columns,
            engine._cores_used,
            engine._served_by,
            self._factor,
            engine._core,
            self.load(numa),
            self._rank_load,
        )
