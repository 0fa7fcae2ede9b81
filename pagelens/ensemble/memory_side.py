"""Rows of a node whose fast memory is a cache: the replay of core/replay/replay.hpp, its times and their
counterfactuals.

The misses of the memory-side cache split by comparison with two twins that are fed the same stream: an
infinite cache (compulsory misses: the first use of each line) and a fully associative one of the same size
with random replacement (docs/decisions/ideal-twin.md). Capacity is what this ideal twin misses beyond the
compulsory, conflicts what the machine misses beyond that twin; each carries the write-backs of its own
dirty victims (Hill, Smith: Evaluating Associativity in CPU Caches, IEEE Trans. Comput. 38 (1989),
1612-1630). A third mechanism is that dirty victims cost at all. Page walks, and a core frequency other than
the median node's, are mechanisms where the machine file states them. Where cores share an L3, conflicts
in it and in L2 and evictions by its snoop filter are taken away by replays of machines that are ideal there,
on a few nodes. Where the machine file describes DRAM's banks, rows are a mechanism, too: what they cost a
line is found once, on the machine as it is, and held for the lines that are left without the others.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import _core
from pagelens.ensemble.result import (
    COLLISIONS,
    COUNTERFACTUALS,
    OBJECTS,
    PLACEMENTS,
    SEPARATOR,
    SLOTS,
    TWINS,
    Tables,
    of_times,
    table,
)
from pagelens.ensemble.setup import Setup
from pagelens.frames import Node, Policy
from pagelens.machine import TRANSLATION_COUNTS, Machine, cache_mode_times
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
from pagelens.replay.memory_side import COUNTERS, by_phase, replay
from pagelens.replay.memory_side import mechanisms as before_memory_side
from pagelens.replay.ordered_lines import rows_are_timed

Columns = dict[str, Any]
Counts = Mapping[str, NDArray[np.float64]]

SLOT_CELLS = 2048  # of the map of slots that a result keeps
# The time model's columns of what a twin counts; each miss is also a read of DDR.
TWIN_COLUMNS = {
    "msc_misses": "misses",
    "msc_read_misses": "read_misses",
    "ddr_reads": "misses",
    "ddr_writes": "ddr_writes",
}


def rows(setup: Setup, policy: Policy, state: Node, cancel: _core.CancelFlag) -> Tables:
    """Rows of one policy on one node."""
    run = _Run(setup, policy, state, cancel)
    counters = run.replay((), rows=True)
    counts = run.counts(counters)
    counts |= setup.rows_behind.counts(counters, counts["ddr_reads"] + counts["ddr_writes"])
    key = {"node": state.node, "policy": policy.name}
    of_phase = key | {"phase": list(setup.workload.phases)}
    return Tables(
        placements=_placements(run.machine, setup.cores_used, of_phase, counts, counters, run.factor),
        counterfactuals=_counterfactuals(of_phase, run.counterfactuals(counts)),
        objects=_objects(setup, key, counters),
        collisions=_collisions(setup, key, counters),
        slots=_slots(key, counters, run.machine),
    )


class _Run:
    """A policy on a node, and what all replays of it have in common."""

    def __init__(self, setup: Setup, policy: Policy, state: Node, cancel: _core.CancelFlag) -> None:
        self.setup, self.policy, self.state, self.cancel = setup, policy, state, cancel
        self.machine = policy.machine(setup.machine)
        self.program = setup.workload.compile(self.machine, policy.page_bits, policy.offset_bytes)
        self.factor = self.machine.cores.frequency_factor(setup.seed, state.node)

    def replay(self, without: tuple[str, ...], rows: bool = False) -> _core.Counters:
        """Without some mechanisms of the caches before the memory-side one; with `rows` DRAM is timed."""
        return replay(
            self.program,
            self.machine,
            self.policy.place(self.machine, self.state),
            self.policy.page_bits,
            ranks=self.setup.ranks,
            seed=self.setup.seed,
            node=self.state.node,
            ideal=True,
            sampled=self.setup.sampled,
            without=without,
            rows=self.setup.rows_behind.model(self.policy, self.program) if rows else None,
            cancel=self.cancel,
        )

    def counts(self, counters: _core.Counters) -> dict[str, NDArray[np.float64]]:
        """The time model's columns, and all others of a placement."""
        counts = {name: values.astype(np.float64) for name, values in by_phase(counters).items()}
        counts["instructions"] = self.setup.instructions(self.program)
        counts["first_ddr_writes"] = np.zeros(counters.phases)  # an infinite cache pushes nothing out
        wanted = counters.huge_pages + counters.small_fallbacks
        small = counters.small_fallbacks / max(1, wanted)
        return {**counts, **self.setup.translations.counts(self.policy, small, self.cancel)}

    def counterfactuals(self, counts: Counts) -> dict[str, NDArray[np.float64]]:
        """By what is removed; nothing where that takes replays and the node is not one of the few."""
        players = before_memory_side(self.machine)
        if players and self.state.node >= self.setup.attributed:
            return {}
        found = {}
        for removed in subsets(players):
            of_caches = counts
            if removed:
                of_caches = self.counts(self.replay(removed)) | {"row_s": counts["row_s"]}
            for name, seconds in counterfactuals(
                self.machine, of_caches, self.setup.cores_used, self.factor
            ).items():
                if name != TWO_WAY:
                    found[SEPARATOR.join(filter(None, (*removed, name)))] = seconds
                elif not removed:
                    found[TWO_WAY] = seconds
        return found


def _counterfactuals(of_phase: Columns, found: Mapping[str, NDArray[np.float64]]) -> pl.DataFrame:
    if not found:
        return COUNTERFACTUALS.to_frame()
    phases = of_phase["phase"]
    without = [removed for removed in found for _ in phases]
    times = np.concatenate(list(found.values()))
    return table(
        COUNTERFACTUALS, of_phase | {"phase": phases * len(found), "without": without, "time_s": times}
    )


def counterfactuals(
    machine: Machine, counts: Counts, cores_used: int, frequency_factor: float
) -> dict[str, NDArray[np.float64]]:
    """Seconds without each set of the mechanisms, and with a 2-way cache; one entry a row of `counts`."""

    def seconds(columns: Counts, factor: float = frequency_factor) -> NDArray[np.float64]:
        return cache_mode_times(machine, columns, cores_used, factor).time_s

    two_way, ideal, infinite = (
        {**counts, **{column: counts[f"{twin}_{count}"] for column, count in TWIN_COLUMNS.items()}}
        for twin in TWINS
    )
    found = {TWO_WAY: seconds(two_way)}
    everything = mechanisms(machine)
    for removed in subsets(everything):
        columns = remaining(frozenset(everything) - set(removed), counts, ideal, infinite)
        found[SEPARATOR.join(removed)] = seconds(columns, 1.0 if FREQUENCY in removed else frequency_factor)
    return found


def mechanisms(machine: Machine) -> tuple[str, ...]:
    """Those that the machine file lets be in play."""
    stated = {
        PAGE_WALKS: machine.page_walk is not None,
        ROW_CONFLICTS: rows_are_timed(machine),
        FREQUENCY: machine.cores.frequency_spread is not None,
    }
    return (CAPACITY, CONFLICTS, WRITE_BACKS, *(name for name, is_in_play in stated.items() if is_in_play))


def remaining(present: frozenset[str], machine: Counts, ideal: Counts, infinite: Counts) -> Counts:
    """Counters when only the mechanisms `present` are in play.

    `machine`, `ideal` and `infinite` hold the time model's columns for the machine itself and its twins. No
    count falls below the compulsory one, which conflicts alone could do where the fully associative twin is
    the worse cache.
    """
    counts = dict(machine)
    conflicts, capacity = float(CONFLICTS in present), float(CAPACITY in present)
    for name in TWIN_COLUMNS:
        least = infinite[name]
        counts[name] = np.maximum(
            least + capacity * (ideal[name] - least) + conflicts * (machine[name] - ideal[name]), least
        )
    if WRITE_BACKS not in present:
        counts["ddr_writes"] = np.zeros_like(counts["ddr_writes"])
    if PAGE_WALKS not in present:
        counts |= dict.fromkeys(TRANSLATION_COUNTS, np.zeros_like(counts["ddr_writes"]))
    if ROW_CONFLICTS not in present:
        counts["row_s"] = np.zeros_like(counts["ddr_writes"])
    return counts


def _placements(
    machine: Machine,
    cores_used: int,
    of_phase: Columns,
    counts: Counts,
    counters: _core.Counters,
    factor: float,
) -> pl.DataFrame:
    times = cache_mode_times(machine, counts, cores_used, factor)
    share = 0.0 if machine.ideal else counters.residency.conflict_share
    of_run = {
        "conflict_share": share,
        "large_pages": float(counters.huge_pages),
        "large_pages_missing": float(counters.small_fallbacks),
    }
    columns = {name: np.full(counters.phases, value) for name, value in of_run.items()}
    return table(PLACEMENTS, of_phase | dict(counts) | columns | of_times(times))


def _objects(setup: Setup, key: Columns, counters: _core.Counters) -> pl.DataFrame:
    names = [known.name for known in setup.workload.objects]
    sums = counters.table.astype(np.float64)
    of = {name: sums[:, :, index].ravel() for index, name in enumerate(COUNTERS)}
    columns = {
        "phase": np.repeat(list(setup.workload.phases), len(names)).tolist(),
        "object": names * counters.phases,
        "accesses": of["msc_reads"] + of["msc_writes"],
        "misses": of["msc_misses"],
        "conflict_evictions": of["conflict_evictions"],
    }
    return table(OBJECTS, key | columns).filter(pl.col("accesses") > 0)


def _collisions(setup: Setup, key: Columns, counters: _core.Counters) -> pl.DataFrame:
    names = [known.name for known in setup.workload.objects]
    columns = {
        "object": np.repeat(names, len(names)).tolist(),
        "victim": names * len(names),
        "lines": counters.collisions.ravel().astype(np.float64),
    }
    return table(COLLISIONS, key | columns).filter(pl.col("lines") > 0)


def _slots(key: Columns, counters: _core.Counters, machine: Machine) -> pl.DataFrame:
    bins: NDArray[np.uint32] = counters.residency.map
    if machine.ideal or bins.size == 0:
        return table(SLOTS, key | {"cell": [], "pages_per_slot": []})
    cells = min(SLOT_CELLS, bins.size)
    pages = bins.reshape(cells, -1).sum(axis=1, dtype=np.float64)
    return table(SLOTS, key | {"cell": np.arange(cells), "pages_per_slot": pages * cells / machine.slots})
