"""Modifiers of a policy: POLICY+offset-64k moves the program's arrays, POLICY+nps4 sets the machine.

Modifiers follow a policy's name in any order, each once. The result is a policy like any other.
"""

import re
from dataclasses import dataclass, replace

from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.frames.conflict_period import conflict_period
from pagelens.frames.policies import Costs, Host, Job, Policy, Remedy, RunOptions, policies
from pagelens.spelling import nearest
from pagelens.units import format_binary_size

LARGEST_OFFSET = 1 << 20  # bytes
# Settings of the machine: the words for each, and what it costs.
SETTINGS = {
    "swizzle": ("banks swizzled", Costs(root="bank swizzle in the BIOS, and a reboot")),
    "nps4": ("four NUMA nodes a socket", Costs(root="NPS4 in the BIOS, and a reboot")),
}
MODIFIERS = ("offset-SIZE", *SETTINGS)  # as help and errors write them

OF_OBJECTS = ("touch", "interleave", "weighted", "replicate")  # policies that can be for one object alone

_OFFSET = re.compile(r"offset-(?P<number>[0-9]{1,7})(?P<unit>[km])")
_UNITS = {"k": 1 << 10, "m": 1 << 20}


@dataclass(frozen=True)
class Staggered(Remedy):
    """Moves large blocks further apart with `pagelens run --stagger`, in addition to another remedy."""

    base: Remedy

    def run_options(self, job: Job, host: Host) -> RunOptions | str:
        """Spread the blocks over the period of the machine's conflicts."""
        options = self.base.run_options(job, host)
        if isinstance(options, str):
            return options
        return replace(options, period_bytes=conflict_period(job.machine, options.page_bytes))


def find_policy(name: str, option: str = "--policies") -> Policy:
    """Return the policy of that name, with its modifiers. NAME:OBJECT applies to one object's pages.

    Raises UsageError for an unknown name; `option` is what the error calls the argument.
    """
    kind, colon, object_name = name.partition(":")
    if colon and kind in OF_OBJECTS:
        policy = policies[kind]
        return replace(
            policy,
            name=name,
            title=f"{policy.title}, of {object_name}",
            numa=replace(policy.numa, objects=(object_name,)),
        )
    parts = name.split("+")
    for known in range(len(parts), 0, -1):  # a policy's own name may have a plus, as aged+zonesort
        if (base := "+".join(parts[:known])) in policies:
            policy = policies[base]
            for modifier in parts[known:]:
                policy = _modified(policy, modifier, name, option)
            return replace(policy, name=name)
    raise _unknown(name, parts[0], option)


def _modified(policy: Policy, modifier: str, name: str, option: str) -> Policy:
    if modifier in SETTINGS:
        if policy.setting == modifier:
            raise UsageError(f"{option}: '{name}': {modifier} stands twice; leave one out")
        if policy.setting:
            raise UsageError(f"{option}: '{name}': has two settings of the machine; leave one out")
        words, costs = SETTINGS[modifier]
        return _described(replace(policy, setting=modifier), words, costs, Remedy())
    if (match := _OFFSET.fullmatch(modifier)) is None:
        raise _unknown(name, policy.name, option)
    if policy.offset_bytes:
        raise UsageError(f"{option}: '{name}': an offset stands twice; leave one out")
    size = int(match["number"]) * _UNITS[match["unit"]]
    if not 0 < size <= LARGEST_OFFSET or size % FRAME_BYTES:
        raise UsageError(f"{option}: '{name}': an offset is a multiple of 4k from 4k to 1m, as offset-64k is")
    changed, shown = replace(policy, offset_bytes=size), format_binary_size(size)
    return _described(
        changed,
        f"large arrays {shown} further apart",
        Costs(memory=f"{shown} an array", code="padding of arrays, or a preloaded padding allocator"),
        Staggered(policy.remedy or Remedy()),
    )


def _described(policy: Policy, words: str, costs: Costs, remedy: Remedy) -> Policy:
    """Return the policy with what a modifier adds to its title and costs."""
    both = {
        of: "; ".join(text for text in (getattr(policy.costs, of), getattr(costs, of)) if text)
        for of in ("root", "memory", "code")
    }
    return replace(policy, title=f"{policy.title}, {words}", costs=Costs(**both), remedy=remedy)


def _unknown(name: str, base: str, option: str) -> UsageError:
    known = [*policies, *(f"{base}+{modifier}" for modifier in MODIFIERS if base in policies)]
    return UsageError(f"{option}: '{name}' is unknown; did you mean {nearest(name, known)}?")
