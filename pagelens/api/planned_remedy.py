"""Writes the best remedy for one object as a plan, so that `pagelens run --plan` applies it."""

from dataclasses import dataclass
from pathlib import Path

from pagelens.accesses.trace import TraceWorkload
from pagelens.accesses.workload import Workload
from pagelens.explain import Explanation
from pagelens.machine import Machine
from pagelens.place import build_nodes_plan, write_plan

NAME = "plan.toml"
PLANNED = ("interleave", "weighted")  # remedies of one object that change no code


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
    """Write a plan of the first remedy for one object that gains and that a plan can apply.

    Returns None if there is none, as for declared workloads and machines of one NUMA node.
    """
    if not isinstance(program, TraceWorkload):
        return None
    for remedy in explanation.remedies:
        kind, _, name = remedy.policy.partition(":")
        if kind not in PLANNED or not name or remedy.verdict != "gains":
            continue
        plan = build_nodes_plan(program, machine, {name: (kind, nodes_under(kind, machine))})
        if plan is not None:
            write_plan(plan, directory / NAME)
            return PlannedRemedy(remedy.policy, directory / NAME)
    return None
