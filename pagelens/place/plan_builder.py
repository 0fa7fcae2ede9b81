"""Makes a plan of a placement. It lists the objects with a part in fast memory as `run --plan` finds them."""

import math
from collections.abc import Mapping, Sequence

from pagelens.accesses.site_groups import MOST_FRAMES
from pagelens.accesses.trace import TraceWorkload
from pagelens.accesses.workload import ObjectInfo
from pagelens.machine import Machine
from pagelens.place.plan import Plan, PlannedObject, parse_frame, parse_variable
from pagelens.place.profile import Floats, Profile

MOST_SITES = 256  # of one object; those of a recursion that come later stay where the kernel puts them
LEAST_SHARE = 0.005  # of an object: less is not worth a line


def build_plan(
    profile: Profile,
    workload: TraceWorkload,
    shares: Floats,
    capacity: float,
    in_regions: Mapping[str, Floats] | None = None,
) -> Plan:
    """Return the plan of one rank's placement, from shares [o] and the capacity in bytes of one rank.

    `in_regions` has the shares [o] in marked regions, if they differ there.
    """
    regions = in_regions or {}
    planned: dict[tuple[str, ...], PlannedObject] = {}  # keyed by what an object is found by
    for known in sorted(profile.objects, key=lambda known: -float(profile.traffic[known.index])):
        keys = [key for key in _keys(known) if key not in planned]
        share = _share(shares, known.index)
        others = {name: _share(of, known.index) for name, of in regions.items()}
        if not known.placeable or not max([share, *others.values()]) or not keys:
            continue
        stated = {
            "name": known.name,
            "bytes": _size(profile.bytes[known.index] / len(keys)),
            "tier": "fast",
            "share": share,
            "shares": {name: other for name, other in others.items() if other != share},
        }
        for key in keys:
            place = {"variable": known.variable} if known.variable else {"site": list(key)}
            planned[key] = PlannedObject.model_validate(stated | place)
    return Plan.model_validate(
        {
            "format": 1,
            "program": workload.name,
            "machine": profile.machine.name,
            "capacity": _size(capacity),
            "modules": _modules(workload, list(planned.values())),
            "objects": list(planned.values()),
        }
    )


def build_nodes_plan(
    workload: TraceWorkload, machine: Machine, placed: Mapping[str, tuple[str, Sequence[int]]]
) -> Plan | None:
    """Return a plan that puts objects on the machine's NUMA nodes.

    `placed` has, by the name of an object, its policy in the plan and its nodes. Returns None if none of the
    objects has a call site or a variable.
    """
    planned: dict[tuple[str, ...], PlannedObject] = {}
    for known in workload.objects:
        if known.name not in placed:
            continue
        policy, nodes = placed[known.name]
        for key in _keys(known):
            stated = {
                "name": known.name,
                "bytes": _size(known.bytes),
                "tier": "nodes",
                "policy": policy,
                "nodes": list(nodes),
            }
            place = {"variable": known.variable} if known.variable else {"site": list(key)}
            planned.setdefault(key, PlannedObject.model_validate(stated | place))
    if not planned:
        return None
    return Plan.model_validate(
        {
            "format": 1,
            "program": workload.name,
            "machine": machine.name,
            "modules": _modules(workload, list(planned.values())),
            "objects": list(planned.values()),
        }
    )


def _keys(known: ObjectInfo) -> list[tuple[str, ...]]:
    """Return what an object is found by: its sites, or its variable."""
    sites = [site[:MOST_FRAMES] for site in (known.site, *known.other_sites) if site]
    return list(dict.fromkeys(sites))[:MOST_SITES] or ([(known.variable,)] if known.variable else [])


def _share(shares: Floats, index: int) -> float:
    share = float(shares[index])
    # Shares are not rounded up, because together they would exceed the capacity.
    return math.floor(share * 1e4 + 0.01) / 1e4 if share >= LEAST_SHARE else 0.0


def _size(size_bytes: float) -> str:
    return f"{max(1, round(size_bytes))} B"


def _modules(workload: TraceWorkload, planned: Sequence[PlannedObject]) -> list[Mapping[str, str]]:
    """Return the files that have the plan's sites and variables, in the order of their names."""
    used = {parse_frame(text).module for one in planned for text in one.site or ()}
    used |= {parse_variable(one.variable).module for one in planned if one.variable}
    known = {module.path.rpartition("/")[2]: module.build_id.hex() for module in workload.trace.modules}
    return [{"name": name, "build_id": known.get(name, "")} for name in sorted(used)]
