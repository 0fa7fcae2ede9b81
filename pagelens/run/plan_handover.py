"""Turns a plan into the file that `pagelens run --plan` hands to the preload library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pagelens.accesses.program import interpreter, locate
from pagelens.errors import UsageError
from pagelens.host.numa_nodes import read_nodes
from pagelens.host.system import System
from pagelens.place.plan import Plan, read_plan
from pagelens.run.memory_tiers import NO_TIERS, Tiers, chosen_tiers, find_tiers
from pagelens.run.plan_file import handed_plan, keep
from pagelens.run.plan_sites import locate_plan
from pagelens.run.program import shared_libraries, tell
from pagelens.units import format_binary_size

_WITHOUT = "the program runs without the plan"


def hand_over(
    plan_path: Path, program: Path, fast_node: int | None, slow_node: int | None, system: System | None = None
) -> Path | None:
    """Return the file for the library.

    If nothing of the plan is possible here, say so on stderr and return None. Raises UsageError for a file
    that is no plan, and for more fast memory than there is. Raises Failure.
    """
    return objects_file(read_plan(plan_path), plan_path, program, fast_node, slow_node, system)


def objects_file(
    plan: Plan,
    plan_path: Path,
    program: Path,
    fast_node: int | None,
    slow_node: int | None,
    system: System | None = None,
) -> Path | None:
    """Do what `hand_over` does, with a plan that was read from that file."""
    system = system or System()
    _check_nodes(plan, plan_path, system)
    only_nodes = bool(plan.nodes) and all(planned.tier != "fast" for planned in plan.objects)
    tiers = NO_TIERS if only_nodes else _tiers(system, fast_node, slow_node)
    if tiers is None:
        tell(
            "--plan: no NUMA node here is known to be faster than the others; --fast-node N names one; "
            f"{_WITHOUT}"
        )
        return None
    if tiers.fast_bytes is not None and plan.capacity > tiers.fast_bytes:
        nodes = ", ".join(map(str, tiers.fast))
        raise UsageError(
            f"--plan {plan_path}: capacity {format_binary_size(plan.capacity)}: node {nodes} has "
            f"{format_binary_size(tiers.fast_bytes)}; plan for at most that much"
        )
    located = locate_plan(plan, module_paths(plan, program))
    for line in located.said:
        tell(f"--plan: {line}")
    if not located.sites and not located.variables:
        tell(f"--plan: nothing of it is in {program.name} (it is of {plan.program}); {_WITHOUT}")
        return None
    return keep(handed_plan(plan, located, tiers))


def _check_nodes(plan: Plan, path: Path, system: System) -> None:
    here = {node.number for node in read_nodes(system)}
    if unknown := [node for node in plan.nodes if node not in here]:
        known = ", ".join(map(str, sorted(here)))
        raise UsageError(f"--plan {path}: node {unknown[0]}: no such node with memory; here: {known}")


def module_paths(plan: Plan, program: Path) -> Mapping[str, Path]:
    """Return the files of the plan's modules.

    They are the program, and the libraries that it is linked to.
    """
    executable = program
    if os.access(program, os.R_OK) and (words := interpreter(program)):
        executable = locate(words[0])
    found = {plan.program: executable.resolve()}
    found.setdefault(found[plan.program].name, found[plan.program])  # started by a link to it
    if plan.regions or any(module.name != plan.program for module in plan.modules):
        for library in shared_libraries(executable):
            found.setdefault(library.name, library.resolve())
            found.setdefault(library.resolve().name, library.resolve())
    return found


def _tiers(system: System, fast_node: int | None, slow_node: int | None) -> Tiers | None:
    if fast_node is not None:
        return chosen_tiers(system, fast_node, slow_node)
    found = find_tiers(system)
    if found is None or slow_node is None:
        return found
    return Tiers(found.fast, chosen_tiers(system, slow_node, None).fast, found.fast_bytes)
