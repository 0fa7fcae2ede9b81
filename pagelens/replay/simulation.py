"""One simulation: copies of a workload on a machine, and the cost of every placement of them.

    simulation = Simulation(workload, load_machine("cori-knl-cache"), ranks=68)
    run = simulation.run(simulation.place(policies["aged"], Node(simulation.machine, seed=1, node=0)))
    run.times.time_s  # by phase

Whoever needs counts or seconds of a placement asks here. The machine decides which engine replays the
workload, what is sampled, which mechanisms there are, and which sections of the machine file are left out.
Callers need not know: machines with a memory-side cache have `memory_side_engine`, all others have
`node_engine`.
"""

from collections.abc import Collection
from typing import Protocol

from pagelens import _core
from pagelens.accesses.workload import FirstProgram, Workload
from pagelens.errors import UsageError
from pagelens.frames import Node, Policy
from pagelens.machine import Machine
from pagelens.replay.bounds import Bounds
from pagelens.replay.memory_side_engine import MemorySideEngine
from pagelens.replay.nearly_equal import Reference
from pagelens.replay.node_engine import NodeEngine
from pagelens.replay.placement import Placement, place
from pagelens.replay.run import Attributed, Run, Sampling


class Engine(Protocol):
    """Replays placements on one kind of machine. All methods may be called from any thread."""

    mechanisms: tuple[str, ...]
    attribution_replays: bool
    sampling: Sampling

    def bounds(self) -> Bounds:
        """Return what `Simulation.bounds` returns."""

    def run(self, placement: Placement, without: Collection[str], cancel: _core.CancelFlag) -> Run:
        """Return what `Simulation.run` returns."""

    def attribute(self, placement: Placement, cancel: _core.CancelFlag) -> Attributed:
        """Return what `Simulation.attribute` returns."""


def asked_first(machine: Machine) -> FirstProgram:
    """Return what a simulation on the machine first asks of its workload, for `open_trace`."""
    return FirstProgram(machine, in_order=machine.memory_side_cache is None)


class Simulation:
    """`ranks` copies of a workload on a machine.

    Placements can be run in any order and from several threads. What they share (compiled programs, the cost
    of translation, the lines sent to DRAM) is made when it is first needed.

    `seed` decides what is sampled and how random replacement chooses. `cores_used` cores execute
    instructions. By default these are one for each rank and thread, at most the machine's. With
    `past_caches`, the workload's lines are those that its private caches ask of memory, so these caches are
    not simulated. With `only_differences`, whatever costs the same on every node (page walks, the rows of
    DRAM) counts as free, and nothing is attributed. Studies of fleets are several times faster with it. Both
    options are for machines in cache mode. With `vary_assumed`, runs also say what they would take with other
    values than the machine file assumes.
    """

    def __init__(
        self,
        workload: Workload,
        machine: Machine,
        ranks: int,
        *,
        seed: int = 0,
        cores_used: int | None = None,
        past_caches: bool = False,
        only_differences: bool = False,
        vary_assumed: bool = False,
    ) -> None:
        self.workload, self.machine, self.ranks, self.seed = workload, machine, ranks, seed
        cores = machine.cores.count.value
        self.cores_used = min(cores, ranks * workload.threads) if cores_used is None else cores_used
        self._engine: Engine
        if machine.memory_side_cache is not None:
            self._engine = MemorySideEngine(
                workload, machine, ranks, seed, self.cores_used, past_caches, only_differences, vary_assumed
            )
        elif past_caches or only_differences:
            raise ValueError(
                f"{machine.name}: past_caches and only_differences are of machines in cache mode"
            )
        else:
            self._engine = NodeEngine(workload, machine, ranks, seed, self.cores_used, vary_assumed)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names that `without` may have: all mechanisms that attribution divides the time among."""
        return self._engine.mechanisms

    @property
    def attribution_replays(self) -> bool:
        """Whether `attribute` takes several replays instead of one."""
        return self._engine.attribution_replays

    @property
    def sampling(self) -> Sampling:
        """The part of the job that is simulated."""
        return self._engine.sampling

    def bounds(self) -> Bounds:
        """Return the seconds between which the time of every placement lies, without simulating any."""
        return self._engine.bounds()

    def place(self, policy: Policy, node: Node) -> Placement:
        """Return the frames that `policy` gives the job on `node`."""
        return place(policy, self.machine, node)

    def run(
        self, placement: Placement, without: Collection[str] = (), cancel: _core.CancelFlag | None = None
    ) -> Run:
        """Return counts and seconds of a placement, `without` some mechanisms.

        Raises UsageError where the job does not fit or a mechanism is unknown, _core.Cancelled.
        """
        if unknown := set(without) - set(self.mechanisms):
            raise UsageError(
                f"without: {', '.join(sorted(unknown))} is none of {self.machine.name}'s mechanisms; "
                f"name some of {', '.join(self.mechanisms)}"
            )
        return self._engine.run(placement, without, _core.CancelFlag() if cancel is None else cancel)

    def reference(self, placement: Placement, cancel: _core.CancelFlag) -> Reference | None:
        """Return what `run_like` compares other nodes under the same policy with, or None where it cannot."""
        return self._engine.reference(placement, cancel) if isinstance(self._engine, NodeEngine) else None

    def run_like(self, placement: Placement, like: Reference, cancel: _core.CancelFlag) -> Run:
        """Return what `run` returns, or an estimate from a sample that takes as long as that of `like`."""
        assert isinstance(self._engine, NodeEngine)
        return self._engine.run_like(placement, like, cancel)

    def attribute(self, placement: Placement, cancel: _core.CancelFlag | None = None) -> Attributed:
        """Return the run, with its seconds without every set of mechanisms. Raises as `run` does."""
        return self._engine.attribute(placement, _core.CancelFlag() if cancel is None else cancel)
