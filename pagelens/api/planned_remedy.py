"""Writes the best remedy for one object as a plan, so that `pagelens run --plan` applies it."""

from dataclasses import dataclass
from pathlib import Path

from pagelens.accesses.trace import TraceWorkload
from pagelens.accesses.workload import Workload
from pagelens.explain import Explanation
from pagelens.machine import Machine
from pagelens.place import Plan, build_nodes_plan, write_plan

NAME = "plan.toml"
PLANNED = ("interleave", "weighted")  # remedies of one object that change no code
CLOSE = "close"  # a remedy of the whole program: its threads are bound
_RUNTIMES = ("libgomp.", "libomp.", "libiomp5.")  # of OpenMP


@dataclass(frozen=True)
class PlannedRemedy:
    """A remedy of an explanation, and the file of its plan."""

    policy: str
    path: Path

    @property
    def sentence(self) -> str:
        """How to apply it."""
        return f"Apply {self.policy} with `pagelens run --plan {self.path} --report -- ./app args`."


def nodes_under(kind: str, machine: Machine) -> list[int]:
    """Return the nodes that a policy takes in turn: "interleave" those with cores, "weighted" all."""
    return list(range(machine.topology.rows if kind == "interleave" else machine.topology.nodes))


def write_nodes_plan(
    explanation: Explanation, program: Workload, machine: Machine, directory: Path
) -> PlannedRemedy | None:
    """Write a plan of the first remedy that gains and that a plan can apply: for one object, or `CLOSE`.

    Returns None if there is none, as for declared workloads and machines of one NUMA node.
    """
    if not isinstance(program, TraceWorkload):
        return None
    for remedy in explanation.remedies:
        kind, _, name = remedy.policy.partition(":")
        if remedy.verdict != "gains":
            continue
        plan = None
        if kind in PLANNED and name:
            plan = build_nodes_plan(program, machine, {name: (kind, nodes_under(kind, machine))})
        elif kind == CLOSE and _has_openmp(program):
            plan = Plan(format=1, program=program.name, machine=machine.name, threads="close")
        if plan is not None:
            write_plan(plan, directory / NAME)
            return PlannedRemedy(remedy.policy, directory / NAME)
    return None


def _has_openmp(program: TraceWorkload) -> bool:
    names = [Path(module.path).name for module in program.trace.modules]
    return any(name.startswith(_RUNTIMES) for name in names)
