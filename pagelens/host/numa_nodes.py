"""Reads the NUMA nodes that have memory, with their speeds and memory-side caches, from /sys."""

import re
from dataclasses import dataclass, replace

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
    size_path: str = ""  # the file that `size` is from, if not the folder's own

    @property
    def number(self) -> int:
        """The kernel's number of the node; 0 if it lists none."""
        match = re.search(r"node([0-9]+)$", self.path)
        return int(match[1]) if match else 0


def read_nodes(system: System) -> list[NumaNode]:
    """Return every NUMA node that has memory.

    If the kernel lists no nodes, all memory becomes one node without processors, so the list is never empty.
    A single node has all memory, even where its own file tells of less: in a guest of Firecracker with
    126 GiB it told of 4.6 GiB.
    """
    nodes = [node for path in system.folders(FOLDER, "node") if (node := _node(system, path)) is not None]
    size = _total(system, "/proc/meminfo")
    known = _sane(size)
    if len(nodes) == 1 and known and size > nodes[0].size:
        return [replace(nodes[0], size=size, size_path="/proc/meminfo")]
    if nodes:
        return nodes
    path = "/proc/meminfo" if known else ""
    return [NumaNode(path, size if known else _UNKNOWN_BYTES, frozenset(), None, None, None, False)]


def _node(system: System, path: str) -> NumaNode | None:
    size = _total(system, f"{path}/meminfo")
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


def _total(system: System, path: str) -> int:
    """Return the bytes that a file of meminfo's form states as MemTotal, or 0."""
    match = re.search(r"MemTotal:\s*([0-9]{1,15}) kB", system.text(path))
    return int(match[1]) << 10 if match else 0


def _sane(size: int) -> bool:
    return 1024 * FRAME_BYTES <= size <= MOST_BYTES
