"""What can be changed beside the frames: POLICY+offset-64k moves arrays, POLICY+swizzle sets the machine.

Modifiers stand after a policy's name, in any order, each once; what they give is a policy like any other.
"""

import re
from dataclasses import replace

from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.frames.policies import Costs, Policy, policies
from pagelens.spelling import nearest
from pagelens.units import format_binary_size

LARGEST_OFFSET = 1 << 20
MODIFIERS = ("offset-SIZE", "swizzle")  # as users are told

_OFFSET = re.compile(r"offset-(?P<number>[0-9]{1,7})(?P<unit>[km])")
_UNITS = {"k": 1 << 10, "m": 1 << 20}


def find_policy(name: str, option: str = "--policies") -> Policy:
    """The policy of that name, with its modifiers; `option` is what errors call it.

    Raises UsageError for a name of none.
    """
    parts = name.split("+")
    for known in range(len(parts), 0, -1):  # names of policies have a plus, too
        if (base := "+".join(parts[:known])) in policies:
            policy = policies[base]
            for modifier in parts[known:]:
                policy = _modified(policy, modifier, name, option)
            return replace(policy, name=name)
    raise _unknown(name, parts[0], option)


def _modified(policy: Policy, modifier: str, name: str, option: str) -> Policy:
    if modifier == "swizzle":
        if policy.setting:
            raise UsageError(f"{option}: '{name}': swizzle stands twice; leave one out")
        changed = replace(policy, setting=modifier)
        return _told(changed, "banks swizzled", Costs(root="bank swizzle in the BIOS, and a reboot"))
    if (match := _OFFSET.fullmatch(modifier)) is None:
        raise _unknown(name, policy.name, option)
    if policy.offset_bytes:
        raise UsageError(f"{option}: '{name}': an offset stands twice; leave one out")
    size = int(match["number"]) * _UNITS[match["unit"]]
    if not 0 < size <= LARGEST_OFFSET or size % FRAME_BYTES:
        raise UsageError(f"{option}: '{name}': an offset is a multiple of 4k from 4k to 1m, as offset-64k is")
    changed, shown = replace(policy, offset_bytes=size), format_binary_size(size)
    return _told(
        changed,
        f"large arrays {shown} further apart",
        Costs(
            memory=f"{shown} an array", code="OFFSET or padding of arrays, or a preloaded padding allocator"
        ),
    )


def _told(policy: Policy, words: str, costs: Costs) -> Policy:
    """With what a modifier adds to title and costs; a remedy, whatever the policy was before."""
    both = {
        of: "; ".join(text for text in (getattr(policy.costs, of), getattr(costs, of)) if text)
        for of in ("root", "memory", "code")
    }
    return replace(policy, title=f"{policy.title}, {words}", costs=Costs(**both), remedy=True)


def _unknown(name: str, base: str, option: str) -> UsageError:
    known = [*policies, *(f"{base}+{modifier}" for modifier in MODIFIERS if base in policies)]
    return UsageError(f"{option}: '{name}' is unknown; did you mean {nearest(name, known)}?")
