"""Which policies are compared where the user names none: those that can make a difference on the machine."""

from collections.abc import Iterable, Mapping

from pagelens.accesses.workload import Workload
from pagelens.errors import UsageError
from pagelens.frames import Policy, find_policy
from pagelens.machine import Machine

DEFAULT_POLICIES = ("aged", "aged+zonesort", "random", "contiguous", "2m", "1g")
SORTED = "aged+zonesort"  # by slots of a memory-side cache
# Without one: set by the machine's firmware, or by how the program allocates its arrays.
SWIZZLED, APART = "aged+swizzle", "2m+offset-64k"


def choose_policies(names: str) -> Mapping[str, Policy]:
    """The policies of "aged,random,2m+offset-64k", in that order."""
    return _found(part.strip() for part in names.split(","))


def default_policies(workload: Workload, machine: Machine) -> Mapping[str, Policy]:
    """DEFAULT_POLICIES; without a memory-side cache, what can be tried there instead of sorting for it."""
    if machine.memory_side_cache is not None:
        return _found(DEFAULT_POLICIES)
    found = _found(name for name in (*DEFAULT_POLICIES, SWIZZLED, APART) if name != SORTED)
    return {name: policy for name, policy in found.items() if _applies(policy, workload, machine)}


def _found(names: Iterable[str]) -> Mapping[str, Policy]:
    return {name: find_policy(name) for name in names}


def _applies(policy: Policy, workload: Workload, machine: Machine) -> bool:
    try:
        workload.check_offset(policy.machine(machine), policy.offset_bytes)
    except UsageError:
        return False
    return True
