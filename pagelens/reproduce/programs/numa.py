"""Loops over arrays on machines of several NUMA nodes: who touches pages first, and where threads run.

Caches have as few sets as the model takes, and the arrays are several times as large as all caches together.
Lines pass the caches as they do at full size, because no part of an array is used twice in a sweep.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pagelens import _core
from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, Walk, read, write
from pagelens.accesses.declared.workload import DeclaredWorkload
from pagelens.address.units import LINE_BYTES
from pagelens.ensemble.scale import shrink
from pagelens.frames import Node, find_policy, parse_history
from pagelens.frames.numa_rule import NumaRule
from pagelens.frames.policies.policy import Policy, kernel_rule
from pagelens.machine import Machine
from pagelens.replay import Simulation
from pagelens.reproduce.context import StudyContext

SHRUNK = 64  # the factor of memories, L2s and snoop filters
L3_SHRUNK = (64, 256)  # that of L3s; at quick scale
FEWEST_SETS = 64  # of a cache: those of a page's lines
TIMES_CACHES = (3, 2)  # the size of all arrays, over that of all caches; at quick scale
LEAST_BYTES = (24 << 20, 8 << 20)  # of all arrays, if the caches are small; at quick scale
INSTRUCTIONS = 4.5  # a line of 8 doubles, as STREAM's triad executes them


@dataclass(frozen=True)
class AllMemories(NumaRule):
    """Pages interleaved over all memories by weight, also over those without cores."""

    weights: tuple[int, ...] = ()

    def policies(self, machine: Machine) -> list[_core.NumaPolicy]:
        """Return the local policy for other pages, and the weighted interleaving of these."""
        nodes = (1 << machine.topology.nodes) - 1
        mode = _core.NumaMode.weighted_interleave
        return [_core.NumaPolicy(_core.NumaMode.local), _core.NumaPolicy(mode, nodes, list(self.weights))]


@dataclass(frozen=True)
class Loop:
    """A loop that reads arrays and stores into others, and who touches the arrays first."""

    loads: str  # arrays of one letter
    stores: str = ""  # fetched, then written back
    serial: str = ""  # first touched by the first thread alone
    rewritten: str = ""  # touched by their threads, and then written by the first thread alone
    untouched: str = ""  # first touched by the loop itself

    def loops(self, size_bytes: float) -> Loops:
        """Return the whole program with arrays of `size_bytes` together."""
        arrays = "".join(dict.fromkeys(self.loads + self.stores))
        body = (*read(*self.loads), *write(*self.stores))
        return Loops(
            tuple(Array(name, size_bytes / len(arrays)) for name in arrays),
            (
                *(_initialise(name, name in self.serial) for name in arrays if name not in self.untouched),
                *(_initialise(name, True) for name in self.rewritten),
                # It also writes back what the initialisation left in the caches.
                Sweep("warm-up", INSTRUCTIONS, body, first_touch=bool(self.untouched)),
                Sweep("loop", INSTRUCTIONS, body),
            ),
        )


@dataclass(frozen=True)
class Case:
    """A loop on a machine that comes with pagelens, by default on all of its cores."""

    machine: str
    loop: Loop
    policy: str | NumaRule = "aged"
    threads: int = 0
    beyond_fast: bool = False  # in flat mode: the arrays do not fit into the fast memory


@dataclass(frozen=True)
class Rate:
    """The speed of a loop on a placement."""

    counted: float  # bytes a second as benchmarks count them: each array once
    wait_s: float  # the time that a line of memory is waited for, by the node that waits longest


def rates(context: StudyContext, cases: Mapping[str, Case]) -> Mapping[str, Rate]:
    """Return the speed of each case. Raises Interrupted once the study is cancelled."""
    found = context.map(lambda case: _rate(context, case), cases.values())
    return dict(zip(cases, found, strict=True))


def _rate(context: StudyContext, case: Case) -> Rate:
    least = context.pick(*LEAST_BYTES)
    fast = least // 4 if case.beyond_fast else None  # so that most lies beyond
    machine, caches = _smaller(context.machine(case.machine), fast, context.pick(*L3_SHRUNK))
    size = max(least, context.pick(*TIMES_CACHES) * caches)
    threads = case.threads or machine.cores.count.value
    simulation = Simulation(DeclaredWorkload("numa", case.loop.loops(size), threads), machine, 1)
    node = Node(machine, context.seed, 0, history=parse_history("boot; run"))
    policy = (
        find_policy(case.policy)
        if isinstance(case.policy, str)
        else Policy("own", "a rule of this study", kernel_rule, numa=case.policy)
    )
    run = simulation.run(simulation.place(policy, node), cancel=context.cancel)
    reads = float(run.counts["msc_reads"][-1])
    waiting = float(run.times.resources["latency"][-1])
    at_once = machine.cores.outstanding_lines.value * simulation.cores_used
    return Rate(size / float(run.times.time_s[-1]), waiting * at_once / max(1.0, reads))


def _initialise(array: str, alone: bool) -> Sweep:
    walk = Walk.serial if alone else Walk.parts
    return Sweep("initialise", INSTRUCTIONS, (Stream(array, Kind.write, walk=walk),), first_touch=True)


def _smaller(machine: Machine, fast_bytes: int | None, l3_shrunk: int) -> tuple[Machine, int]:
    """Return the machine with small caches and memories, and the bytes of all of its caches.

    `fast_bytes` are what its fast memory keeps, if that shrinks.
    """
    cores = machine.cores.count.value
    l2 = max(
        machine.l1.size.value,
        machine.l2.size.value // SHRUNK,
        FEWEST_SETS * LINE_BYTES * machine.l2.ways.value,
    )
    changes: dict[str, object] = {"l2.size": f"{l2} B"}
    caches = l2 * cores // machine.l2.shared_by.value
    if machine.l3 is not None:
        l3 = machine.l3.size.value // l3_shrunk
        changes["l3.size"] = f"{l3} B"
        caches += l3 * cores // (machine.l3.shared_by.value if machine.l3.shared_by is not None else cores)
    if machine.snoop_filter is not None:
        changes["snoop_filter.sets"] = machine.snoop_filter.sets.value // SHRUNK
    if fast_bytes is not None:
        changes["fast_memory.size"] = f"{fast_bytes} B"
    small = machine.with_values(changes)
    return (shrink(small, 1 / SHRUNK) if small.numa is not None else small), caches
