"""Placement policies. Each file has the rule, its costs, and how it is applied to a real machine.

To add one, write a module with a tuple POLICIES in this folder (docs/extending.md).
"""

from importlib import import_module
from pkgutil import iter_modules

from pagelens.errors import UsageError
from pagelens.frames.policies.policy import Costs, Policy
from pagelens.frames.policies.python_rule import placed_by
from pagelens.frames.policies.remedy import Host, Job, Remedy, RunOptions

__all__ = ["Costs", "Host", "Job", "Policy", "Remedy", "RunOptions", "placed_by", "policies", "register"]

_FIRST = (  # in the order in which policies are compared and listed; others follow by name
    "aged",
    "zonesort",
    "random_frames",
    "contiguous",
    "shuffled",
    "numa_fake",
    "adaptive",
    "huge_pages",
    "gigantic_pages",
    "colouring",
)

policies: dict[str, Policy] = {}


def register(policy: Policy) -> Policy:
    """Make a policy known by its name, to commands and to `simulate`, and return it.

    Raises UsageError if another policy has the name.
    """
    if not policy.name:
        raise UsageError("policy: the name is empty; give it one")
    if policies.setdefault(policy.name, policy) != policy:
        raise UsageError(f"policy: '{policy.name}' is already registered; give yours another name")
    return policy


_found = sorted(module.name for module in iter_modules(__path__))
for _name in (*_FIRST, *(name for name in _found if name not in _FIRST)):
    for _policy in getattr(import_module(f"{__name__}.{_name}"), "POLICIES", ()):
        register(_policy)
