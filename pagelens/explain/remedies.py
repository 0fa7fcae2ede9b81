"""Chooses the policies to compare if the user names none: those that can matter on the machine."""

from collections.abc import Iterable, Mapping

from pagelens.accesses.workload import Workload
from pagelens.errors import UsageError
from pagelens.frames import Policy, find_policy, policies
from pagelens.machine import Machine
from pagelens.replay import far_objects

# These are also compared without a memory-side cache: settings of the firmware, and arrays further apart.
WITHOUT_CACHE = ("aged+swizzle", "aged+nps4", "2m+offset-64k")

OF_ONE_OBJECT = ("touch", "interleave")  # remedies for one object alone, on several NUMA nodes
MOST_OBJECTS = 3  # that get them: each is a replay or two of the whole program


def choose_policies(names: str) -> Mapping[str, Policy]:
    """Return the policies of a text such as "aged,random,2m+offset-64k", in that order.

    Raises UsageError for an unknown one.
    """
    return _found(part.strip() for part in names.split(","))


def default_policies(workload: Workload, machine: Machine, ranks: int = 1) -> Mapping[str, Policy]:
    """Return the policies that are marked as `compared` and can make a difference on the machine.

    On a machine of several NUMA nodes these are also policies for the objects that one thread touches first
    and threads on other nodes use.
    """
    several = machine.topology.nodes > 1
    tiers = bool(machine.topology.slow_nodes)
    compared = {
        name: policy
        for name, policy in policies.items()
        if policy.compared
        and several >= policy.needs_nodes
        and tiers >= policy.needs_tiers
        and (machine.page_order == 0 or policy.suits_larger_pages)
    }
    if several:
        far = list(far_objects(workload, machine, ranks))[:MOST_OBJECTS]
        compared.update(_found(f"{kind}:{name}" for name in far for kind in OF_ONE_OBJECT))
    if machine.memory_side_bytes:
        return compared
    tried = {name: policy for name, policy in compared.items() if not policy.needs_cache}
    tried.update(_found(WITHOUT_CACHE))
    return {name: policy for name, policy in tried.items() if _applies(policy, workload, machine)}


def _found(names: Iterable[str]) -> Mapping[str, Policy]:
    return {name: find_policy(name) for name in names}


def _applies(policy: Policy, workload: Workload, machine: Machine) -> bool:
    try:
        workload.check_offset(policy.machine(machine), policy.offset_bytes)
    except UsageError:
        return False
    return True
