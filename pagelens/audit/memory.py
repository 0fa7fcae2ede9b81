"""NUMA nodes, their tiers and the caches in front of them.

The kernel's word comes first. Where it says nothing, hwloc's word counts.
"""

import re

from pagelens.audit.model import MemoryNode, SideCache
from pagelens.host.numa_nodes import MOST_BYTES, read_nodes
from pagelens.host.proc_files import sizes
from pagelens.host.system import System
from pagelens.machine import Machine

_TIERS = "/sys/devices/virtual/memory_tiering"
_FAST_KINDS = ("MCDRAM", "HBM")


def read_memory(system: System, machine: Machine) -> tuple[MemoryNode, ...]:
    """Return every node with memory.

    The machine file says which memory is fast if neither HMAT nor hwloc says so.
    """
    tiers = {
        node: int(path.rpartition("memory_tier")[2])
        for path in system.folders(_TIERS, "memory_tier")
        for node in system.cpus(f"{path}/nodelist")
    }
    kinds, caches = _of_hwloc(system)
    nodes = []
    all_found = read_nodes(system)
    local = [found.bandwidth for found in all_found if found.cpus and found.bandwidth]
    apart = sum(found.size for found in all_found if not found.cpus)
    fast_by_machine = machine.fast_memory is not None and machine.fast_memory.size.value == apart
    for found in all_found:
        number = int(match[1]) if (match := re.search(r"/node(\d+)$", found.path)) else 0
        cache = None
        if found.side_cache:
            where = f"{found.path}/memory_side_cache/index1"
            indexing, line = system.number(f"{where}/indexing"), system.number(f"{where}/line_size")
            cache = SideCache(found.side_cache, None if indexing is None else indexing == 0, line, "HMAT")
        faster: bool | None = None
        if match and not found.cpus:
            faster = kinds.get(number) in _FAST_KINDS or fast_by_machine or None
            if found.bandwidth and local:
                faster = found.bandwidth > max(local)
        nodes.append(
            MemoryNode(
                number=number,
                processors=len(found.cpus) if match else None,
                size=found.size if found.path else None,
                free=sizes(system, f"{found.path}/meminfo" if match else "/proc/meminfo").get("MemFree"),
                bandwidth=found.bandwidth,
                latency_ns=found.latency_ns,
                tier=tiers.get(number),
                kind=kinds.get(number),
                side_cache=cache or caches.get(number),
                faster=faster,
            )
        )
    return tuple(nodes)


def _of_hwloc(system: System) -> tuple[dict[int, str], dict[int, SideCache]]:
    """Return the kinds of memory, and the caches in front of it, by node."""
    kinds: dict[int, str] = {}
    caches: dict[int, SideCache] = {}
    for attributes in system.hwloc():
        mask = re.sub(r"0x|,", "", attributes.get("nodeset", ""))
        if not re.fullmatch(r"[0-9a-f]{1,256}", mask):
            continue
        nodes = [node for node in range(int(mask, 16).bit_length()) if int(mask, 16) >> node & 1]
        kind, size = attributes.get("subtype", ""), _whole(attributes.get("cache_size", ""))
        if attributes.get("type") == "NUMANode" and re.fullmatch(r"[\w -]{1,24}", kind):
            kinds |= dict.fromkeys(nodes, kind)
        elif attributes.get("type") == "MemCache" and 0 < size <= MOST_BYTES:
            ways = _whole(attributes.get("cache_associativity", ""))
            line = _whole(attributes.get("cache_linesize", "")) or None
            caches |= dict.fromkeys(nodes, SideCache(size, ways == 1 if ways > 0 else None, line, "hwloc"))
    return kinds, caches


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0
