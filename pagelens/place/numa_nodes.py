"""Decides for each object of a program on which NUMA nodes it lies, by a mixed integer program.

Who asks for which object's lines is counted once, under first touch. Each way to place an object then moves
its lines to other nodes, and the seconds of each memory and link are sums over the objects. A phase takes as
long as the busiest of them, and the sum over the phases becomes the least. Two ways of an object are never
mixed, because a plan cannot do that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from scipy.optimize import Bounds, LinearConstraint, milp

from pagelens.accesses.trace import TraceWorkload
from pagelens.accesses.workload import KERNEL, Workload
from pagelens.ensemble import check_fits
from pagelens.errors import UsageError
from pagelens.frames import Node, find_policy, parse_history
from pagelens.frames.numa_rule import bandwidth_weights
from pagelens.machine import Machine
from pagelens.place.plan import Plan
from pagelens.place.plan_builder import build_nodes_plan
from pagelens.replay import Run, Simulation

Floats = NDArray[np.float64]

FIRST_TOUCH = "first touch"
LEAST_SHARE = 0.01  # of all lines; objects below it stay as they are
SECONDS = 10.0  # limit of the solver
TIE = 1e-3  # of the time: placements that differ by less are equally good


@dataclass(frozen=True)
class Way:
    """A way to place an object: a policy of a plan, or first touch; and its nodes."""

    policy: str
    nodes: tuple[int, ...]
    shares: Floats | None  # [node] of the object's pages; None: those of first touch

    @property
    def title(self) -> str:
        """The words for it."""
        if self.shares is None:
            return FIRST_TOUCH
        return f"{self.policy} {','.join(map(str, self.nodes))}"


class NodesRow(BaseModel):
    """One object, and where it should lie."""

    model_config = ConfigDict(frozen=True)
    name: str
    bytes: int  # of one rank
    share: float  # of the lines of memory, all ranks
    policy: str  # of a plan, or "first touch"
    nodes: list[int]
    alone_s: float  # seconds that the run would take if this object alone lay so


class NodesReport(BaseModel):
    """Where each object of a program should lie, and what that gains: modelled seconds of the whole run."""

    model_config = ConfigDict(frozen=True)
    machine: str
    program: str
    first_touch_s: float
    placed_s: float
    gap: float  # share of its time by which the placement may miss the least one
    objects: list[NodesRow]  # most lines first
    plan: str = ""


@dataclass(frozen=True)
class OnNodes:
    """The report, and what `pagelens run --plan` enforces. Declared loops have no plan."""

    report: NodesReport
    plan: Plan | None


def ways_of(machine: Machine) -> list[Way]:
    """Return the ways to place an object; first touch comes first.

    The others are one node, the nodes with cores in turn, and all nodes in turn by the kernel's weights. The
    kernel has one set of weights for all objects.
    """
    topology = machine.topology
    near, every = tuple(range(topology.rows)), tuple(range(topology.nodes))
    one = np.eye(topology.nodes)
    weights = np.asarray(bandwidth_weights(machine), dtype=np.float64)
    interleaved, weighted = one[: topology.rows].mean(axis=0), weights / weights.sum()
    ways = [
        Way(FIRST_TOUCH, (), None),
        *(Way("prefer", (node,), one[node]) for node in every),
        Way("interleave", near, interleaved),
    ]
    if not np.array_equal(interleaved, weighted):
        ways.append(Way("weighted", every, weighted))
    return ways


def place_on_nodes(workload: Workload, machine: Machine, ranks: int, seed: int = 0) -> OnNodes:
    """Decide on which NUMA nodes each object lies. Raises UsageError for a machine of one node."""
    if machine.topology.nodes == 1:
        raise UsageError(f"machine: {machine.name} has one NUMA node; name one with several, as skx-6140-2s")
    check_fits(workload, machine, ranks)
    simulation = Simulation(workload, machine, ranks, seed=seed)
    node = Node(machine, seed, 0, history=parse_history("boot; run"), job_bytes=workload.job_bytes(ranks))
    run = simulation.run(simulation.place(find_policy("aged"), node))
    seconds = Seconds(machine, run, simulation.cores_used)
    ways, names = ways_of(machine), [known.name for known in workload.objects]
    lines = seconds.lines.sum(axis=(0, 2))
    worth = [o for o in np.argsort(-lines) if o != KERNEL and lines[o] >= LEAST_SHARE * lines.sum()]
    sizes = np.array([float(known.bytes * ranks) for known in workload.objects])
    capacities = np.asarray(machine.topology.sizes, dtype=np.float64)
    chosen, gap = _solve(seconds, ways, worth, sizes, capacities)
    chosen = _with_fewest_changes(seconds, ways, chosen, sizes, capacities)
    rows = []
    for o in worth:
        way = ways[chosen[o]]
        rows.append(
            NodesRow(
                name=names[o],
                bytes=round(sizes[o] / ranks),
                share=float(lines[o] / lines.sum()),
                policy=way.policy,
                nodes=list(way.nodes),
                alone_s=seconds.of({o: way}),
            )
        )
    report = NodesReport(
        machine=machine.name,
        program=workload.name,
        first_touch_s=seconds.of({}),
        placed_s=seconds.of({o: ways[k] for o, k in chosen.items()}),
        gap=gap,
        objects=rows,
    )
    return OnNodes(report, _plan(workload, machine, rows))


class Seconds:
    """The seconds of a run as a function of where its objects lie."""

    def __init__(self, machine: Machine, run: Run, cores_used: int) -> None:
        assert run.numa is not None
        self._topology, self._cores_used = machine.topology, cores_used
        self._in_flight = machine.cores.outstanding_lines.value * cores_used
        self._reads, self._writes = run.numa.reads, run.numa.writes  # [p, o, from, to]
        self.lines = (self._reads + self._writes).sum(axis=3)  # [p, o, from]
        busy = dict(run.times.resources)
        busy["issue"] = busy["issue"] + busy.pop("page faults", 0.0)  # one core does both
        others = [of for name, of in busy.items() if name not in ("latency", "links", "DDR")]
        if run.numa.shared is not None:
            others.append(run.numa.shared.busiest_s)
        self.floor: Floats = np.max(others, axis=0)  # [p] seconds that no placement changes

    def parts(self, o: int, way: Way) -> Floats:
        """Return the seconds [p, resource] of each memory, link and node's waiting that an object needs."""
        reads, writes = self._reads[:, o], self._writes[:, o]
        if way.shares is not None:
            reads, writes = (lines.sum(axis=2)[:, :, None] * way.shares for lines in (reads, writes))
        topology = self._topology
        links = [link.seconds(reads, writes) for link in topology.links]
        waits = (reads[:, : topology.rows] * topology.latency).sum(axis=2)
        return np.hstack(
            [
                topology.seconds_of_memories(reads[:, : topology.rows], writes[:, : topology.rows]),
                np.stack(links, axis=1),
                waits * topology.rows / self._in_flight,
            ]
        )

    def first_touch_shares(self, o: int) -> Floats:
        """Return the share [node] of the object's lines, and so about that of its pages."""
        on_node: Floats = (self._reads + self._writes)[:, o].sum(axis=(0, 1))
        return np.asarray(on_node / max(1.0, float(on_node.sum())))

    def of_phases(self, changed: dict[int, Way]) -> Floats:
        """Return the seconds [p] with these objects placed so, and all others by first touch.

        The lines of page clearing are an object of the kernel's, and stay where first touch puts them.
        """
        first = Way(FIRST_TOUCH, (), None)
        total = sum(self.parts(o, changed.get(o, first)) for o in range(self._reads.shape[1]))
        return np.asarray(np.maximum(self.floor, np.max(total, axis=1)))

    def of(self, changed: dict[int, Way]) -> float:
        """Return the seconds of the whole run."""
        return float(self.of_phases(changed).sum())


def _solve(
    seconds: Seconds, ways: Sequence[Way], worth: Sequence[int], sizes: Floats, capacities: Floats
) -> tuple[dict[int, int], float]:
    """Return the way of each object that is worth one, and the gap.

    The variables are one for each object and way (1: the object lies so), and the seconds of each phase.
    """
    phases, count = len(seconds.floor), len(worth) * len(ways)
    others = [o for o in range(len(sizes)) if o not in worth]
    fixed = sum((seconds.parts(o, ways[0]) for o in others), np.zeros(1))
    costs = [[seconds.parts(o, way) for way in ways] for o in worth]
    resources = costs[0][0].shape[1] if costs else 0
    busy = np.zeros((phases, resources, count + phases))
    room = np.zeros((len(capacities), count + phases))
    one = np.zeros((len(worth), count + phases))
    for i, o in enumerate(worth):
        for k, way in enumerate(ways):
            at = i * len(ways) + k
            busy[:, :, at] = costs[i][k]
            share = seconds.first_touch_shares(o) if way.shares is None else way.shares
            room[:, at] = sizes[o] * share
            one[i, at] = 1
    for phase in range(phases):
        busy[phase, :, count + phase] = -1
    if not worth:
        return {}, 0.0
    limit = -np.broadcast_to(fixed, (phases, resources))
    used = sum((sizes[o] * seconds.first_touch_shares(o) for o in others), np.zeros(len(capacities)))
    first_touch = room[:, : count : len(ways)].sum(axis=1)  # which the memories have held
    found = milp(
        np.concatenate([np.zeros(count), np.ones(phases)]),
        integrality=np.concatenate([np.ones(count), np.zeros(phases)]),
        bounds=Bounds(
            np.concatenate([np.zeros(count), seconds.floor]),
            np.concatenate([np.ones(count), np.full(phases, np.inf)]),
        ),
        constraints=[
            LinearConstraint(busy.reshape(phases * resources, -1), -np.inf, limit.ravel()),
            LinearConstraint(room, -np.inf, np.maximum(capacities - used, first_touch)),
            LinearConstraint(one, 1, 1),
        ],
        options={"time_limit": SECONDS},
    )
    if found.x is None:
        return dict.fromkeys(worth, 0), 1.0
    taken = found.x[:count].reshape(len(worth), len(ways)).argmax(axis=1)
    return {o: int(k) for o, k in zip(worth, taken, strict=True)}, float(found.mip_gap or 0.0)


def _with_fewest_changes(
    seconds: Seconds, ways: Sequence[Way], chosen: dict[int, int], sizes: Floats, capacities: Floats
) -> dict[int, int]:
    """Return the choice with all objects left to first touch that gain nothing elsewhere.

    Objects are tried one by one, those with the fewest lines first. An object stays where it is if the memory
    of a node would not suffice otherwise.
    """

    def of(choice: dict[int, int]) -> float:
        return seconds.of({o: ways[k] for o, k in choice.items()})

    def used(choice: dict[int, int]) -> Floats:
        shares = (
            (
                o,
                seconds.first_touch_shares(o)
                if (way := ways[choice.get(o, 0)]).shares is None
                else way.shares,
            )
            for o in range(len(sizes))
        )
        return sum((sizes[o] * share for o, share in shares), np.zeros(len(capacities)))

    least, room = of(chosen), np.maximum(capacities, used({}))
    for o in reversed(list(chosen)):
        without = {**chosen, o: 0}
        if of(without) <= (1 + TIE) * least and np.all(used(without) <= room):
            chosen = without
    return chosen


def _plan(workload: Workload, machine: Machine, rows: Sequence[NodesRow]) -> Plan | None:
    if not isinstance(workload, TraceWorkload):
        return None
    placed = {row.name: (row.policy, row.nodes) for row in rows if row.policy != FIRST_TOUCH}
    return build_nodes_plan(workload, machine, placed) if placed else None
