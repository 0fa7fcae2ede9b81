"""Rows of a node without a memory-side cache: the replay through TLBs, caches and DRAM, and the same without
some of its mechanisms.

Conflicts, snoop filter, page walks and rows are taken away by replays of machines that are ideal there, each
set of them together. What the caches then lose to programs that do not fit them is their capacity: the rest
over what they would ask of memory if they were infinite (compulsory misses: Hill, Smith 1989). It cannot be
taken away with conflicts left, so it is no player of the game, but what is left when all have gone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import LINE_BYTES
from pagelens.ensemble.result import (
    COLLISIONS,
    COUNTERFACTUALS,
    NODE_COUNTS,
    OBJECTS,
    PLACEMENTS,
    SEPARATOR,
    SLOTS,
    Tables,
    of_times,
    table,
)
from pagelens.ensemble.setup import Setup
from pagelens.frames import Node, Policy
from pagelens.machine import Machine, Times, memory_of_job, node_times
from pagelens.replay.mechanisms import CACHE_CAPACITY, FREQUENCY, ROW_CONFLICTS, subsets
from pagelens.replay.whole_node import NodeCounts, mechanisms, node_model, replay_node

Columns = dict[str, Any]
Counts = Mapping[str, NDArray[np.float64]]


def rows(setup: Setup, policy: Policy, state: Node, cancel: _core.CancelFlag) -> Tables:
    """Rows of one policy on one node."""
    run = _Run(setup, policy, state, cancel)
    attributed = state.node < setup.attributed
    found = run.replay((), both_rows=attributed)
    key = {"node": state.node, "policy": policy.name}
    of_phase = key | {"phase": list(setup.workload.phases)}
    what_ifs = [
        table(COUNTERFACTUALS, of_phase | {"without": SEPARATOR.join(without), "time_s": seconds})
        for without, seconds in (run.counterfactuals(found) if attributed else ())
    ]
    return Tables(
        placements=run.placements(of_phase, found),
        counterfactuals=pl.concat(what_ifs) if what_ifs else COUNTERFACTUALS.to_frame(),
        objects=_objects(setup, key, found),
        collisions=COLLISIONS.to_frame(),
        slots=SLOTS.to_frame(),
    )


class _Run:
    """A policy on a node, and what all replays of it have in common."""

    def __init__(self, setup: Setup, policy: Policy, state: Node, cancel: _core.CancelFlag) -> None:
        self.setup, self.policy, self.state, self.cancel = setup, policy, state, cancel
        self.machine = policy.machine(setup.machine)
        self.parts = setup.node_programs.parts(policy.offset_bytes)
        self.memory = memory_of_job(self.machine, setup.job_bytes)
        self.has_banks = self.machine.dram is not None and self.memory == "ddr"
        self.frequency_factor = self.machine.cores.frequency_factor(setup.seed, state.node)
        self.instructions = {"instructions": setup.instructions(self.parts.program)}

    def replay(self, without: tuple[str, ...], both_rows: bool) -> NodeCounts:
        """Without some mechanisms; with `both_rows` also for the DRAM that has no row conflicts."""
        rows = ((True, False) if both_rows else (True,)) if self.has_banks else ()
        return replay_node(
            self.parts,
            self.policy.place(self.machine, self.state),
            node_model(self.machine, without, rows, self.setup.seed, self.parts.in_stretches),
            ranks=self.setup.ranks,
            cancel=self.cancel,
        )

    def times(self, counts: Counts, frequency_factor: float) -> Times:
        """Of each phase."""
        columns = {**counts, **self.instructions}
        return node_times(self.machine, columns, self.setup.cores_used, self.memory, frequency_factor)

    def counterfactuals(self, found: NodeCounts) -> Iterator[tuple[tuple[str, ...], NDArray[np.float64]]]:
        """(removed, seconds) for every set of the mechanisms that are in play, and without all of them."""
        of_rows: list[tuple[str, ...]] = [(), (ROW_CONFLICTS,)] if self.has_banks else [()]
        of_cores: list[tuple[tuple[str, ...], float]] = [((), self.frequency_factor)]
        if self.machine.cores.frequency_spread is not None:
            of_cores.append(((FREQUENCY,), 1.0))
        players = mechanisms(self.machine)
        for removed in subsets(players):
            counts = found if not removed else self.replay(removed, both_rows=True)
            for row, without_rows in enumerate(of_rows):
                for without_spread, factor in of_cores:
                    without = (*removed, *without_rows, *without_spread)
                    yield without, self.times(counts.with_row(row), factor).time_s
        without_spread, factor = of_cores[-1]
        everything = (*players, *of_rows[-1], *without_spread, CACHE_CAPACITY)
        least = self.setup.node_programs.compulsory(self.policy.offset_bytes)
        yield everything, self.times(_compulsory(least, self.machine), factor).time_s

    def placements(self, of_phase: Columns, found: NodeCounts) -> pl.DataFrame:
        """The counters and times of the machine as it is."""
        counts = found.with_row(0)
        times = self.times(counts, self.frequency_factor)
        of_run = {
            "simulated_share": found.simulated,
            "large_pages": float(found.huge_pages),
            "large_pages_missing": float(found.small_fallbacks),
        }
        columns = {name: counts[name] for name in NODE_COUNTS if name in counts}
        columns |= {name: np.full(len(times.time_s), value) for name, value in of_run.items()}
        columns |= {
            "l2_accesses": counts["l2_references"],
            "l2_misses": counts["l2_misses"],
            "l2_write_backs": counts["l2_writebacks"],
            "msc_reads": counts["dram_reads"],
            "msc_writes": counts["dram_writes"],
            "msc_hits": counts["dram_reads"] + counts["dram_writes"],
        }
        return table(PLACEMENTS, of_phase | self.instructions | columns | of_times(times))


def _compulsory(lines: NDArray[np.float64], machine: Machine) -> Counts:
    """What is left below infinite caches; DRAM moves it at its peak bandwidth."""
    reads, writes = lines.T
    none = ("l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads")
    return {
        **dict.fromkeys(none, np.zeros_like(reads)),
        "dram_reads": reads,
        "dram_writes": writes,
        "dram_time_s": LINE_BYTES * (reads + writes) / machine.ddr.bandwidth.value,
    }


def _objects(setup: Setup, key: Columns, found: NodeCounts) -> pl.DataFrame:
    names = [known.name for known in setup.workload.objects]
    columns = {
        "phase": np.repeat(list(setup.workload.phases), len(names)).tolist(),
        "object": names * len(setup.workload.phases),
        "accesses": found.object_lines.ravel(),
    }
    return table(OBJECTS, key | columns).filter(pl.col("accesses") > 0)
