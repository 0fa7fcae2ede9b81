"""One node of an ensemble: its history once, then every policy from the same state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.ensemble.result import COLLISIONS, OBJECTS, PLACEMENTS, SLOTS, Tables
from pagelens.errors import Failure, UsageError
from pagelens.frames import Node, Policy, Step
from pagelens.machine import Machine, cache_mode_times, flat_memory, flat_mode_times
from pagelens.replay import COUNTERS, by_phase, replay

Columns = dict[str, Any]

SLOT_CELLS = 2048  # of the map of slots that a result keeps


@dataclass(frozen=True)
class Setup:
    """All that decides the rows of a node; shared by the nodes."""

    workload: Workload
    machine: Machine
    policies: Mapping[str, Policy]
    history: Sequence[Step]
    scale: float  # of the machine's capacities, and so of the sizes in the history
    seed: int
    ranks: int
    cores_used: int
    sampled: int  # one slot in so many is simulated

    def simulate(self, node: int, cancel: _core.CancelFlag) -> Tables:
        """The rows of one node; depends on nothing but the setup and the node."""
        state = Node(
            self.machine,
            self.seed,
            node,
            history=self.history,
            scale=self.scale,
            job_bytes=self.workload.footprint_bytes * self.ranks,
        )
        return Tables.concatenate(self._place(policy, state, cancel) for policy in self.policies.values())

    def _place(self, policy: Policy, state: Node, cancel: _core.CancelFlag) -> Tables:
        program = self.workload.compile(self.machine, policy.page_bits)
        try:
            counters = replay(
                program,
                self.machine,
                policy.place(self.machine, state),
                policy.page_bits,
                ranks=self.ranks,
                seed=self.seed,
                node=state.node,
                ideal=True,
                sampled=self.sampled,
                cancel=cancel,
            )
        except UsageError as error:
            raise UsageError(f"policy '{policy.name}', node {state.node}: {error}") from None
        except MemoryError:
            raise Failure(
                f"policy '{policy.name}', node {state.node}: this computer's memory does not suffice to "
                f"simulate --ranks {self.ranks}; name fewer, or run on fewer cores, as with taskset -c 0"
            ) from None
        key = {"node": state.node, "policy": policy.name}
        return Tables(
            placements=self._placements(key, program, counters),
            objects=self._objects(key, counters),
            collisions=self._collisions(key, counters),
            slots=_slots(key, counters, self.machine),
        )

    def _placements(self, key: Columns, program: _core.Program, counters: _core.Counters) -> pl.DataFrame:
        counts = {name: values.astype(np.float64) for name, values in by_phase(counters).items()}
        instructions = np.asarray(program.instructions, dtype=np.float64).reshape(counters.phases, -1)
        counts["instructions"] = instructions.sum(axis=1) * self.ranks
        factor = self.machine.cores.frequency_factor(self.seed, key["node"])
        if self.machine.mode == "cache":
            times = cache_mode_times(self.machine, counts, self.cores_used, factor)
        else:
            memory = flat_memory(self.machine, self.workload.footprint_bytes * self.ranks)
            times = flat_mode_times(self.machine, counts, self.cores_used, memory, factor)
        counts["first_ddr_writes"] = np.zeros(counters.phases)  # an infinite cache pushes nothing out
        share = 0.0 if self.machine.ideal else counters.residency.conflict_share
        counts["conflict_share"] = np.full(counters.phases, share)
        counts["large_pages"] = np.full(counters.phases, float(counters.huge_pages))
        counts["large_pages_missing"] = np.full(counters.phases, float(counters.small_fallbacks))
        counts["time_s"], counts["serial_time_s"] = times.time_s, times.serial_time_s
        return _table(PLACEMENTS, key | {"phase": list(self.workload.phases)} | counts)

    def _objects(self, key: Columns, counters: _core.Counters) -> pl.DataFrame:
        names = [known.name for known in self.workload.objects]
        table = counters.table.astype(np.float64)
        of = {name: table[:, :, index].ravel() for index, name in enumerate(COUNTERS)}
        rows = {
            "phase": np.repeat(list(self.workload.phases), len(names)).tolist(),
            "object": names * counters.phases,
            "accesses": of["msc_reads"] + of["msc_writes"],
            "misses": of["msc_misses"],
            "conflict_evictions": of["conflict_evictions"],
        }
        return _table(OBJECTS, key | rows).filter(pl.col("accesses") > 0)

    def _collisions(self, key: Columns, counters: _core.Counters) -> pl.DataFrame:
        names = [known.name for known in self.workload.objects]
        rows = {
            "object": np.repeat(names, len(names)).tolist(),
            "victim": names * len(names),
            "lines": counters.collisions.ravel().astype(np.float64),
        }
        return _table(COLLISIONS, key | rows).filter(pl.col("lines") > 0)


def _slots(key: Columns, counters: _core.Counters, machine: Machine) -> pl.DataFrame:
    bins: NDArray[np.uint32] = counters.residency.map
    if machine.mode != "cache" or machine.ideal or bins.size == 0:
        return _table(SLOTS, key | {"cell": [], "pages_per_slot": []})
    cells = min(SLOT_CELLS, bins.size)
    pages = bins.reshape(cells, -1).sum(axis=1, dtype=np.float64)
    return _table(SLOTS, key | {"cell": np.arange(cells), "pages_per_slot": pages * cells / machine.slots})


def _table(schema: pl.Schema, columns: Columns) -> pl.DataFrame:
    """Columns of one length by name; single values fill theirs."""
    rows = max(len(values) for values in columns.values() if not isinstance(values, str | int))
    full = {
        name: [columns[name]] * rows if isinstance(columns[name], str | int) else columns[name]
        for name in schema
    }
    return pl.DataFrame(full, schema=dict(schema), strict=False)
