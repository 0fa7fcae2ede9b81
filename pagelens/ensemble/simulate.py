"""One node of an ensemble: its history once, then every policy from the same state, as rows of tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pagelens import _core
from pagelens.ensemble.result import (
    ASSUMED,
    COLLISIONS,
    COUNTERFACTUALS,
    OBJECTS,
    PLACEMENTS,
    RESOURCES,
    SEPARATOR,
    SLOTS,
    STRETCHES,
    Tables,
    baseline_of,
    table,
)
from pagelens.errors import Failure, UsageError
from pagelens.frames import Node, Policy, Step
from pagelens.machine import Times
from pagelens.replay import Attributed, Placement, Run, Simulation

Columns = dict[str, Any]


@dataclass(frozen=True)
class NodeSimulation:
    """What decides the rows of a node, beside its number; shared by all nodes."""

    simulation: Simulation
    policies: Mapping[str, Policy]
    history: Sequence[Step]
    scale: float  # of the machine's capacities, and so of the sizes in the history
    attributed: int  # where that takes replays, so many nodes are attributed, under the baseline alone

    def rows(self, node: int, cancel: _core.CancelFlag) -> Tables:
        """The rows of one node. Raises UsageError, Failure, _core.Cancelled."""
        simulation = self.simulation
        state = Node(
            simulation.machine,
            simulation.seed,
            node,
            history=self.history,
            scale=self.scale,
            job_bytes=simulation.workload.job_bytes(simulation.ranks),
        )
        return Tables.concatenate(self._rows(policy, state, cancel) for policy in self.policies.values())

    def _rows(self, policy: Policy, state: Node, cancel: _core.CancelFlag) -> Tables:
        simulation = self.simulation
        try:
            found = self._found(policy, simulation.place(policy, state), cancel)
        except UsageError as error:
            raise UsageError(f"policy '{policy.name}', node {state.node}: {error}") from None
        except MemoryError:
            raise Failure(
                f"policy '{policy.name}', node {state.node}: this computer's memory does not suffice to "
                f"simulate --ranks {simulation.ranks}; name fewer, or run on fewer cores, "
                "as with taskset -c 0"
            ) from None
        workload, run = simulation.workload, found.run
        key = {"node": state.node, "policy": policy.name}
        of_phase = key | {"phase": list(workload.phases)}
        names = [known.name for known in workload.objects]
        return Tables(
            placements=table(PLACEMENTS, of_phase | dict(run.counts) | times_columns(run.times)),
            counterfactuals=_counterfactuals(of_phase, found),
            objects=_objects(key, list(workload.phases), names, run),
            collisions=_collisions(key, names, run),
            slots=_slots(key, run),
            stretches=_stretches(key, list(workload.phases), run),
            assumed=_assumed(key, list(workload.phases), run),
        )

    def _found(self, policy: Policy, placement: Placement, cancel: _core.CancelFlag) -> Attributed:
        chosen = policy.name == baseline_of(self.policies) and placement.node < self.attributed
        if self.simulation.attribution_replays and not chosen:
            return Attributed(self.simulation.run(placement, cancel=cancel), {}, {})
        return self.simulation.attribute(placement, cancel)


def times_columns(times: Times) -> Columns:
    """The columns of `placements` that hold seconds."""
    resources = {RESOURCES[name]: seconds for name, seconds in times.resources.items()}
    return resources | {"time_s": times.time_s, "serial_time_s": times.serial_time_s}


def _counterfactuals(of_phase: Columns, found: Attributed) -> pl.DataFrame:
    seconds = {SEPARATOR.join(removed): of_phases for removed, of_phases in found.seconds_without.items()}
    seconds |= found.what_ifs
    if not seconds:
        return COUNTERFACTUALS.to_frame()
    phases = of_phase["phase"]
    return table(
        COUNTERFACTUALS,
        of_phase
        | {
            "phase": phases * len(seconds),
            "without": [removed for removed in seconds for _ in phases],
            "time_s": np.concatenate(list(seconds.values())),
        },
    )


def _objects(key: Columns, phases: list[str], names: list[str], run: Run) -> pl.DataFrame:
    columns = {
        "phase": np.repeat(phases, len(names)).tolist(),
        "object": names * len(phases),
        "accesses": run.object_accesses.ravel(),
        "misses": run.object_misses.ravel(),
        "conflict_evictions": run.object_conflict_evictions.ravel(),
    }
    return table(OBJECTS, key | columns).filter(pl.col("accesses") > 0)


def _collisions(key: Columns, names: list[str], run: Run) -> pl.DataFrame:
    if run.collisions is None:
        return COLLISIONS.to_frame()
    columns = {
        "object": np.repeat(names, len(names)).tolist(),
        "victim": names * len(names),
        "lines": run.collisions.ravel(),
    }
    return table(COLLISIONS, key | columns).filter(pl.col("lines") > 0)


def _slots(key: Columns, run: Run) -> pl.DataFrame:
    if run.pages_per_slot is None:
        return SLOTS.to_frame()
    cells = np.arange(len(run.pages_per_slot))
    return table(SLOTS, key | {"cell": cells, "pages_per_slot": run.pages_per_slot})


def _stretches(key: Columns, phases: list[str], run: Run) -> pl.DataFrame:
    if run.left_out is None or not len(run.left_out.phase):
        return STRETCHES.to_frame()
    times = run.left_out.times
    columns = {
        "phase": [phases[number] for number in run.left_out.phase],
        "stretch": np.arange(len(run.left_out.phase)),
        "time_s": times.time_s,
        "serial_time_s": times.serial_time_s,
    }
    return table(STRETCHES, key | columns)


def _assumed(key: Columns, phases: list[str], run: Run) -> pl.DataFrame:
    if not run.if_assumed:
        return ASSUMED.to_frame()
    columns = {
        "phase": phases * len(run.if_assumed),
        "value": [name for name, _ in run.if_assumed for _ in phases],
        "factor": np.repeat([factor for _, factor in run.if_assumed], len(phases)),
        "time_s": np.concatenate(list(run.if_assumed.values())),
    }
    return table(ASSUMED, key | columns)
