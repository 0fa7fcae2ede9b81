"""Rows of a node without a memory-side cache: the replay through TLBs, caches and DRAM, and the same without
some of its mechanisms.

Conflicts, snoop filter, page walks and rows are taken away by replays of machines that are ideal there, each
set of them together. What the caches then lose to programs that do not fit them is their capacity: the rest
over what they would ask of memory if they were infinite (compulsory misses: Hill, Smith 1989). It cannot be
taken away with conflicts left, so it is no player of the game, but what is left when all have gone.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import _core
from pagelens.ensemble.result import (
    COLLISIONS,
    COUNTERFACTUALS,
    NODE_COUNTS,
    OBJECTS,
    PLACEMENTS,
    SEPARATOR,
    SLOTS,
    Tables,
    table,
)
from pagelens.ensemble.setup import Setup
from pagelens.frames import Node, Policy
from pagelens.machine import Machine, memory_of_job, node_times
from pagelens.machine.quantities import LINE_BYTES
from pagelens.mechanisms import CACHE_CAPACITY, FREQUENCY, ROW_CONFLICTS
from pagelens.node_replay import NodeCounts, Parts, mechanisms, node_model, replay_node

Columns = dict[str, Any]
Counts = Mapping[str, NDArray[np.float64]]


def rows(setup: Setup, policy: Policy, state: Node, cancel: _core.CancelFlag) -> Tables:
    """Rows of one policy on one node."""
    machine, workload = policy.machine(setup.machine), setup.workload
    parts = setup.node_programs.parts(policy.offset_bytes)
    memory = memory_of_job(machine, setup.job_bytes)
    banks = machine.dram is not None and memory == "ddr"
    factor = machine.cores.frequency_factor(setup.seed, state.node)
    instructions = {"instructions": setup.instructions(parts.program)}

    def replayed(removed: tuple[str, ...], both: bool) -> NodeCounts:
        return replay_node(
            parts,
            policy.place(machine, state),
            node_model(machine, removed, ((True, False) if both else (True,)) if banks else (), setup.seed),
            ranks=setup.ranks,
            cancel=cancel,
        )

    def seconds(counts: Counts, frequency_factor: float) -> NDArray[np.float64]:
        columns = {**counts, **instructions}
        return node_times(machine, columns, setup.cores_used, memory, frequency_factor).time_s

    def counterfactuals(found: NodeCounts) -> Iterator[tuple[tuple[str, ...], NDArray[np.float64]]]:
        """(removed, seconds) for every set of the mechanisms that are in play, and without all of them."""
        of_rows: list[tuple[str, ...]] = [(), (ROW_CONFLICTS,)] if banks else [()]
        of_cores: list[tuple[tuple[str, ...], float]] = [((), factor)]
        if machine.cores.frequency_spread is not None:
            of_cores.append(((FREQUENCY,), 1.0))
        players = mechanisms(machine)
        for size in range(len(players) + 1):
            for removed in combinations(players, size):
                counts = found if not removed else replayed(removed, banks)
                for row, without_rows in enumerate(of_rows):
                    for without_spread, cores in of_cores:
                        yield (*removed, *without_rows, *without_spread), seconds(counts.with_row(row), cores)
        without_spread, cores = of_cores[-1]
        everything = (*players, *of_rows[-1], *without_spread, CACHE_CAPACITY)
        yield everything, seconds(_compulsory(parts, machine), cores)

    attributed = state.node < setup.attributed
    found = replayed((), banks and attributed)
    counts = found.with_row(0)
    times = node_times(machine, {**counts, **instructions}, setup.cores_used, memory, factor)
    key = {"node": state.node, "policy": policy.name}
    of_phase = key | {"phase": list(workload.phases)}
    phases = len(workload.phases)
    columns = {name: counts[name] for name in NODE_COUNTS if name in counts}
    columns |= {
        "l2_accesses": counts["l2_references"],
        "l2_misses": counts["l2_misses"],
        "l2_write_backs": counts["l2_writebacks"],
        "msc_reads": counts["dram_reads"],
        "msc_writes": counts["dram_writes"],
        "msc_hits": counts["dram_reads"] + counts["dram_writes"],
        "simulated_share": np.full(phases, found.simulated),
        "large_pages": np.full(phases, float(found.huge_pages)),
        "large_pages_missing": np.full(phases, float(found.small_fallbacks)),
        "time_s": times.time_s,
        "serial_time_s": times.serial_time_s,
    }
    what_ifs = [
        table(COUNTERFACTUALS, of_phase | {"without": SEPARATOR.join(without), "time_s": time_s})
        for without, time_s in (counterfactuals(found) if attributed else ())
    ]
    return Tables(
        placements=table(PLACEMENTS, of_phase | instructions | columns),
        counterfactuals=pl.concat(what_ifs) if what_ifs else COUNTERFACTUALS.to_frame(),
        objects=_objects(setup, key, found),
        collisions=COLLISIONS.to_frame(),
        slots=SLOTS.to_frame(),
    )


def _compulsory(parts: Parts, machine: Machine) -> Counts:
    """What is left below infinite caches; DRAM moves it at its peak bandwidth."""
    reads, writes = parts.compulsory.T
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
