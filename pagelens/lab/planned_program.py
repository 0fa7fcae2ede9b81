"""Runs a program in a guest with its objects placed by a plan, as `pagelens run --plan`, but without Python.

    words = add_planned(root, "/app/solver", program, plan, Tiers(fast=(1,), slow=(), fast_bytes=None))
    with Guest(files=root, fast=256 << 20, memory="1GiB") as guest:
        guest.run(*words, "argument")

The first of these `words` make it a planned run. Without them the same program runs as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.lab.emulator import NumaSpeed
from pagelens.lab.initramfs import Initramfs
from pagelens.place.plan import Plan
from pagelens.run.memory_tiers import Tiers
from pagelens.run.plan_file import handed_plan
from pagelens.run.plan_handover import module_paths
from pagelens.run.plan_sites import locate_plan
from pagelens.run.preload import Preload, library
from pagelens.run.program import shared_libraries

# A path in the guest. A guest that mounts a /tmp of its own shows nothing of the host's.
PLAN, REPORT, LIBRARY = "/lab/plan", "/lab/report.json", "/lab/libpagelens_run.so"


@dataclass(frozen=True)
class PlanOnNodes:
    """A plan, and the nodes that it is for."""

    plan: Plan
    tiers: Tiers


def place_on(
    plan: Plan, speeds: Sequence[NumaSpeed], nodes: int, fast_node: int | None, slow_node: int | None
) -> PlanOnNodes:
    """Return the plan with its nodes.

    The fastest node is fast; objects that are not planned lie on the others. In a guest all nodes have
    processors. Raises UsageError if nobody says which node is the fastest, and for nodes that do not exist.
    """
    rates = [speed.bandwidth for speed in speeds]
    if fast_node is None:
        if not rates or rates.count(max(rates)) != 1:
            raise UsageError(
                "--plan: no node is the fastest; state speeds, as --numa 400GB/s:100ns,80GB/s:150ns, "
                "or --fast-node N"
            )
        fast_node = rates.index(max(rates))
    for option, node in (("--fast-node", fast_node), ("--slow-node", slow_node)):
        if node is not None and node >= nodes:
            raise UsageError(f"{option} {node}: the guest has nodes 0 to {nodes - 1}; raise --numa")
    if slow_node == fast_node:
        raise UsageError(f"--slow-node {slow_node}: is the fast node, too; name another, or leave it out")
    others = tuple(node for node in range(nodes) if node != fast_node)
    return PlanOnNodes(plan, Tiers((fast_node,), others if slow_node is None else (slow_node,), None))


def add_planned(
    root: Initramfs, name: str, program: Path, plan: Plan, tiers: Tiers, report: str = ""
) -> list[str]:
    """Put the program under `name`, the library and the plan into a guest's root.

    Return the words that run it there.
    """
    root.add_program(name, program)
    root.add(LIBRARY, library())
    root.add(PLAN, plan_for_guest(name, program, plan, tiers))
    settings = Preload(report=bool(report), json=bool(report), output=report, plan=Path(PLAN))
    changed = settings.environment({}) | {"LD_PRELOAD": LIBRARY}
    changed["PAGELENS_RUN"] = ",".join(
        part for part in changed["PAGELENS_RUN"].split(",") if not part.startswith("main=")
    )
    return ["env", *(f"{key}={value}" for key, value in changed.items()), name]


def plan_for_guest(name: str, program: Path, plan: Plan, tiers: Tiers) -> bytes:
    """Return the plan as the library reads it, with the names that files have in the guest."""
    here = module_paths(plan, program)
    located = locate_plan(plan, here)
    # The executable has another name in the guest. Libraries keep the loader's names, which also lead to
    # their files.
    executable = here[plan.program]
    loader = {library.resolve(): library for library in shared_libraries(executable)}
    located.paths = [
        Path(name) if path == executable else loader.get(path, path) if path else None
        for path in located.paths
    ]
    return handed_plan(plan, located, tiers)
