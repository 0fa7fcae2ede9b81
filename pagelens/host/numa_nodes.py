"""Reads the NUMA nodes that have memory, with their speeds and memory-side caches, from /sys."""

import re
from dataclasses import dataclass

from pagelens.address.units import FRAME_BYTES
from pagelens.host.system import System

FOLDER = "/sys/devices/system/node"
MOST_BYTES = 1 << 44  # a larger memory is taken for a misreading
_UNKNOWN_BYTES = 16 << 30  # assumed where nothing states the size


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node with memory."""

    path: str  # the file or folder it was read from; empty if the memory is unknown
    size: int  # bytes that the kernel can hand out
    cpus: frozenset[int]
    bandwidth: int | None  # bytes per second from the nearest processors, which the kernel reads from HMAT
    latency_ns: int | None
    side_cache: int | None  # bytes of a memory-side cache
    side_cache_direct: bool  # whether that cache is direct-mapped
    distances: tuple[int, ...] = ()  # to the nodes in the order of their numbers, as SLIT states them
    near: frozenset[int] = frozenset()  # the nodes whose processors are nearest, if HMAT says so

    @property
    def number(self) -> int:
        """The kernel's number of the node; 0 if it lists none."""
        match = re.search(r"node([0-9]+)$", self.path)
        return int(match[1]) if match else 0


def read_nodes(system: System) -> list[NumaNode]:
    """Return every NUMA node that has memory.

    If the kernel lists no nodes, all memory becomes one node without processors, so the list is never empty.
    """
    nodes = [node for path in system.folders(FOLDER, "node") if (node := _node(system, path)) is not None]
    if nodes:
        return nodes
    match = re.search(r"MemTotal:\s*([0-9]{1,15}) kB", system.text("/proc/meminfo"))
    size = int(match[1]) << 10 if match else 0
    known = _sane(size)
    path = "/proc/meminfo" if known else ""
    return [NumaNode(path, size if known else _UNKNOWN_BYTES, frozenset(), None, None, None, False)]


def _node(system: System, path: str) -> NumaNode | None:
    match = re.search(r"MemTotal:\s*([0-9]{1,15}) kB", system.text(f"{path}/meminfo"))
    size = int(match[1]) << 10 if match else 0
    if not _sane(size):
        return None
    near = f"{path}/access0/initiators"
    bandwidth, latency = system.number(f"{near}/read_bandwidth"), system.number(f"{near}/read_latency")
    cache = f"{path}/memory_side_cache/index1"
    return NumaNode(
        path=path,
        size=size,
        cpus=system.cpus(f"{path}/cpulist"),
        bandwidth=bandwidth * 1_000_000 if bandwidth else None,
        latency_ns=latency or None,
        side_cache=system.size(f"{cache}/size") or None,
        side_cache_direct=system.number(f"{cache}/indexing") == 0,
        distances=tuple(map(int, re.findall(r"\b[0-9]{1,3}\b", system.text(f"{path}/distance")))),
        near=frozenset(int(name.rpartition("node")[2]) for name in system.folders(near, "node")),
    )


def _sane(size: int) -> bool:
    return 1024 * FRAME_BYTES <= size <= MOST_BYTES
