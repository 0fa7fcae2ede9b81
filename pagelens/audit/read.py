"""Reads everything that an audit needs of a node."""

from pagelens.audit.effect import random_conflict_share
from pagelens.audit.fragmentation import read_zones
from pagelens.audit.huge_pages import read_huge_pages
from pagelens.audit.memory import read_memory
from pagelens.audit.model import Audit, Cache
from pagelens.conflicts.socket import knows_sets, socket_of
from pagelens.conflicts.study import contiguous
from pagelens.host.frame_map import FrameMap
from pagelens.host.kernel_settings import read_kernel, read_rights, read_usage
from pagelens.host.system import System
from pagelens.machine import Machine


def read_audit(system: System, machine: Machine, frames: FrameMap | None) -> Audit:
    """Return the readings of a system.

    `machine` is what the node is taken for, and `frames` its frame map, if the user may read it.
    """
    has_filter = machine.snoop_filter is not None and knows_sets(machine)
    socket = socket_of(machine) if has_filter else None
    nodes, zones, usage = read_memory(system, machine), read_zones(system), read_usage(system)
    return Audit(
        machine=machine.title,
        hypervisor=machine.hypervisor,
        nodes=nodes,
        cache=_cache(machine),
        zones=zones,
        huge_pages=read_huge_pages(system, nodes, zones, usage, frames),
        kernel=read_kernel(system),
        usage=usage,
        rights=read_rights(system),
        snoop_filter_share=float(contiguous(socket).mean()) if socket is not None else None,
        snoop_filter_notes=socket.notes if socket is not None else (),
    )


def _cache(machine: Machine) -> Cache | None:
    if (stated := machine.memory_side_size) is None:
        return None
    size, memory = stated.value, machine.ddr.size.value
    share = random_conflict_share(size, size, memory)
    return Cache(size, memory, machine.ways, stated.assumed, share)
