"""Simulates pieces: a node runs its history once, then every policy starts from the same state."""

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import _core
from pagelens.ensemble.pieces import Piece
from pagelens.ensemble.result import (
    ASSUMED,
    COLLISIONS,
    COUNTERFACTUALS,
    NUMA,
    OBJECTS,
    PLACEMENTS,
    RESOURCES,
    SEPARATOR,
    SLOTS,
    STRETCHES,
    Tables,
    table,
)
from pagelens.errors import Failure, UsageError
from pagelens.frames import Node, Policy, Step
from pagelens.machine import Times
from pagelens.replay import Attributed, Placement, Reference, Run, Simulation

Columns = dict[str, Any]
Floats = NDArray[np.float64]


def _kept_nodes(policies: int) -> int:
    """Return how many states of nodes later policies branch from: those that threads may be at.

    Pieces come node by node. A state of a large machine takes hundreds of MiB.
    """
    return 2 + len(os.sched_getaffinity(0)) // policies


class NodeSimulation:
    """All that decides the rows of a piece, except the piece itself."""

    def __init__(
        self,
        simulation: Simulation,
        policies: Mapping[str, Policy],
        history: Sequence[Step],
        scale: float,  # of the machine's capacities, and so of the sizes in the history
    ) -> None:
        self.simulation, self.policies, self.history, self.scale = simulation, policies, history, scale
        self._lock = threading.Lock()
        self._states: OrderedDict[int, tuple[Node, threading.Lock]] = OrderedDict()
        self._references: dict[str, Reference | None] = {}  # by policy
        self._turns = {name: threading.Lock() for name in policies}  # to make one

    def rows(self, piece: Piece, cancel: _core.CancelFlag) -> Tables:
        """Return the rows of one piece. Raises UsageError, Failure or _core.Cancelled."""
        policy = list(self.policies.values())[piece.policy]
        simulation = self.simulation
        try:
            placement = self._place(policy, piece.node)
            if piece.attributed or not simulation.attribution_replays:
                found = simulation.attribute(placement, cancel)
            else:
                found = Attributed(self._run(policy, placement, cancel), {}, {})
        except UsageError as error:
            raise UsageError(f"policy '{policy.name}', node {piece.node}: {error}") from None
        except MemoryError:
            raise Failure(
                f"policy '{policy.name}', node {piece.node}: this computer's memory does not suffice to "
                f"simulate --ranks {simulation.ranks}; name fewer, or run on fewer cores, "
                "as with taskset -c 0"
            ) from None
        workload, run = simulation.workload, found.run
        phases, key = list(workload.phases), {"node": piece.node, "policy": policy.name}
        counterfactuals = _counterfactuals(key | {"phase": phases}, found)
        if piece.attributed:
            return Tables.of(counterfactuals=counterfactuals)
        names = [known.name for known in workload.objects]
        columns = key | {"phase": phases} | dict(run.counts) | times_columns(run.times)
        return Tables(
            placements=table(PLACEMENTS, columns),
            counterfactuals=counterfactuals,
            objects=_objects(key, phases, names, run),
            collisions=_collisions(key, names, run.collisions),
            slots=_slots(key, run),
            stretches=_stretches(key, phases, run),
            assumed=_assumed(key, phases, run),
            numa=_numa(key, phases, names, run),
        )

    def _run(self, policy: Policy, placement: Placement, cancel: _core.CancelFlag) -> Run:
        like = self._reference(policy, cancel)
        if like is None:
            return self.simulation.run(placement, cancel=cancel)
        return self.simulation.run_like(placement, like, cancel)

    def _reference(self, policy: Policy, cancel: _core.CancelFlag) -> Reference | None:
        """Let nodes be compared with node 0, whatever the order of the pieces."""
        with self._turns[policy.name]:
            if policy.name not in self._references:
                placement = self._place(policy, 0)
                self._references[policy.name] = self.simulation.reference(placement, cancel)
            return self._references[policy.name]

    def _place(self, policy: Policy, number: int) -> Placement:
        """Let all policies of a node branch from one state, one at a time."""
        with self._lock:
            if number not in self._states:
                self._states[number] = self._state(number), threading.Lock()
            self._states.move_to_end(number)
            while len(self._states) > _kept_nodes(len(self.policies)):
                self._states.popitem(last=False)
            state, turn = self._states[number]
        with turn:
            return self.simulation.place(policy, state)

    def _state(self, number: int) -> Node:
        simulation = self.simulation
        return Node(
            simulation.machine,
            simulation.seed,
            number,
            history=self.history,
            scale=self.scale,
            job_bytes=simulation.workload.job_bytes(simulation.ranks),
        )


def times_columns(times: Times) -> Columns:
    """Return the columns of `placements` that hold seconds."""
    resources = {RESOURCES[name]: seconds for name, seconds in times.resources.items()}
    bounds = {"at_once_time_s": times.at_once_time_s, "serial_time_s": times.serial_time_s}
    placement_alone = {"equal_cores_time_s": times.equal_cores_time_s}
    return resources | {"time_s": times.time_s} | bounds | placement_alone


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


def _collisions(key: Columns, names: list[str], pairs: NDArray[np.uint64] | None) -> pl.DataFrame:
    if pairs is None:
        return COLLISIONS.to_frame()
    columns = {
        "object": [names[number] for number in pairs[:, 0]],
        "victim": [names[number] for number in pairs[:, 1]],
        "lines": pairs[:, 2].astype(np.float64),
    }
    return table(COLLISIONS, key | columns)


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


def _numa(key: Columns, phases: list[str], names: list[str], run: Run) -> pl.DataFrame:
    if run.numa is None:
        return NUMA.to_frame()
    shared = run.numa.shared
    taken = shared.taken if shared is not None else np.zeros_like(run.numa.reads)
    lines = run.numa.reads + run.numa.writes + taken
    phase, of_object, source, target = np.nonzero(lines > 0)
    columns = {
        "phase": [phases[number] for number in phase],
        "object": [names[number] for number in of_object],
        "from": source,
        "to": target,
        "reads": run.numa.reads[phase, of_object, source, target],
        "writes": run.numa.writes[phase, of_object, source, target],
        "taken": taken[phase, of_object, source, target],
    }
    return table(NUMA, key | columns)


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
