"""Measures what memory the processors of each NUMA node reach how fast, pair by pair and all at once.

As Intel's Memory Latency Checker does, it only reads. All processors of a node sum their parts of memory that
is bound to one node, and one of them follows pointers through it. Each figure is the best of some repeats.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelens import _probes
from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_BYTES, LINE_BYTES
from pagelens.errors import Failure, UsageError
from pagelens.host.memory_policy import bound_to, nodes_of_pages
from pagelens.host.numa_nodes import NumaNode, read_nodes
from pagelens.host.proc_files import sizes
from pagelens.host.system import System
from pagelens.units import format_size

REPEATS = 5
LOADS = 200_000  # of a chase, in each repeat
_TIMES_CACHES, _LEAST_BYTES, _MOST_BYTES = 4, 64 << 20, 1 << 30
_MOST_SHARE = 0.5  # of a node's free memory
_LEAST_ON_NODE = 0.99  # of the pages
_SEED = 1


@dataclass(frozen=True)
class NodeMatrix:
    """The speeds of a machine's NUMA nodes. A row is a node with processors, a column a node's memory."""

    cpus: Mapping[int, tuple[int, ...]]  # of each row's node
    columns: tuple[int, ...]
    size_bytes: int  # of the memory that is read
    latency_s: Mapping[int, tuple[float, ...]]  # of each row
    bandwidth: Mapping[int, tuple[float, ...]]  # bytes a second
    own_at_once: Mapping[int, float]  # bytes a second of each row, while all rows read their own memory
    other_at_once: Mapping[int, float]  # the same while each reads the next row's memory; empty for one row
    cache_bytes: int = 0  # the most that the caches of a row hold

    @property
    def cached(self) -> bool:
        """Whether so little memory is read that caches hold a large part of it."""
        return self.size_bytes < 2 * self.cache_bytes

    def to_json(self) -> dict[str, Any]:
        """Return the matrix with times in seconds and rates in bytes a second."""
        return {
            "version": 1,
            "size_bytes": self.size_bytes,
            "cache_bytes": self.cache_bytes,
            "columns": list(self.columns),
            "rows": [
                {
                    "node": node,
                    "cpus": list(cpus),
                    "latency_s": list(self.latency_s[node]),
                    "bandwidth": list(self.bandwidth[node]),
                    "own_at_once": self.own_at_once[node],
                    "other_at_once": self.other_at_once.get(node),
                }
                for node, cpus in self.cpus.items()
            ],
        }


def measure_nodes(
    size: int | None = None,
    repeats: int = REPEATS,
    report: Callable[[int, int], None] = lambda done, total: None,
    system: System | None = None,
    whole: bool = False,
) -> NodeMatrix:
    """Measure the machine that this runs on, with `size` bytes of memory, by default beyond all caches.

    Nodes whose processors this process may not use get no row. Raises UsageError if a node does not have that
    much memory, or if the machine is to be measured `whole` and would lack a row; Failure if memory cannot be
    had.
    """
    system = system or System()
    nodes = read_nodes(system)
    usable = os.sched_getaffinity(0)
    lacking = [str(node.number) for node in nodes if node.cpus and not node.cpus & usable]
    if whole and lacking:
        raise UsageError(
            f"--measure: this process may use no processor of node {', '.join(lacking)}; run it without "
            "taskset, and in a job that has all nodes of the machine"
        )
    cpus = {node.number: tuple(sorted(node.cpus & usable)) for node in nodes if node.cpus & usable}
    if not cpus:  # the kernel lists no nodes
        cpus = {nodes[0].number: tuple(sorted(usable))}
    caches = max(_probes.last_level_bytes(of_node) for of_node in cpus.values())
    size = _size(system, nodes, cpus, caches, size)
    columns = tuple(node.number for node in nodes)
    latency: dict[int, list[float]] = {node: [] for node in cpus}
    bandwidth: dict[int, list[float]] = {node: [] for node in cpus}
    done, total = 0, len(cpus) * len(columns) + 2
    for column in columns:
        memory = _memory_on(column, size, next(iter(cpus.values()))[0], len(nodes) > 1)
        try:
            for node, of_node in cpus.items():
                report(done, total)
                bandwidth[node].append(_rate(memory, size, {node: of_node}, repeats)[node])
                latency[node].append(_latency(memory, size, of_node[0], repeats))
                done += 1
        finally:
            memory.release()
    own = _at_once(size, cpus, 0, repeats)
    report(total - 1, total)
    other = _at_once(size, cpus, 1, repeats) if len(cpus) > 1 else {}
    report(total, total)
    return NodeMatrix(cpus, columns, size, _rows(latency), _rows(bandwidth), own, other, caches)


def _rows(found: Mapping[int, list[float]]) -> dict[int, tuple[float, ...]]:
    return {node: tuple(row) for node, row in found.items()}


def _size(
    system: System,
    nodes: Sequence[NumaNode],
    cpus: Mapping[int, tuple[int, ...]],
    caches: int,
    asked: int | None,
) -> int:
    """Return the bytes of memory to read: whole pages of 2 MiB, and a part for each processor."""
    most = _MOST_SHARE * min(_free_bytes(system, node) for node in nodes)
    size = min(max(_TIMES_CACHES * caches, _LEAST_BYTES), _MOST_BYTES) if asked is None else asked
    if asked is None and 2 * caches <= most < size:  # still memory rather than caches
        size = int(most) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
    size = -(-size // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
    if size > most:
        name = "the memory to read" if asked is None else "--size"
        remedy = "free some of its memory, such as its page cache" if asked is None else "read less"
        raise UsageError(
            f"{name} {format_size(size)}: at most {format_size(most)}, half of what is free on the fullest "
            f"node; {remedy}"
        )
    least = FRAME_BYTES * max(len(of_node) for of_node in cpus.values())
    if size < least:
        raise UsageError(f"--size {format_size(size)}: at least {format_size(least)}, a page a processor")
    return size


def _free_bytes(system: System, node: NumaNode) -> int:
    """Return what the node has free, or a large number if nothing says it."""
    return sizes(system, f"{node.path}/meminfo").get("MemFree", 1 << 62)


def _memory_on(node: int, size: int, cpu: int, several: bool) -> _probes.Memory:
    """Return memory whose pages lie on the node. One thread populates it, which is bound to the node."""
    if not several:
        return _probes.Memory(size, _probes.Pages.transparent, [cpu], [0])
    with bound_to(node):
        memory = _probes.Memory(size, _probes.Pages.transparent, [cpu], [0])
    pages = memory.address + np.arange(0, size, HUGE_PAGE_BYTES, dtype=np.uint64)
    if np.mean(nodes_of_pages(pages) == node) < _LEAST_ON_NODE:
        memory.release()
        raise Failure(f"node {node}: its pages lie elsewhere; free some of its memory")
    return memory


def _at_once(size: int, cpus: Mapping[int, tuple[int, ...]], shift: int, repeats: int) -> dict[int, float]:
    """Return the rate of each node while all read, each the memory of the node `shift` rows further.

    Each part of the memory is first touched by a processor of the node that it is to lie on.
    """
    fewest = min(map(len, cpus.values()))
    rows = {node: of_node[:fewest] for node, of_node in cpus.items()}
    nodes = list(rows)
    owners = [cpu for at in range(len(nodes)) for cpu in rows[nodes[(at + shift) % len(nodes)]]]
    memory = _probes.Memory(size * len(nodes), _probes.Pages.transparent, owners, [0])
    try:
        return _rate(memory, size * len(nodes), rows, repeats)
    finally:
        memory.release()


def _rate(
    memory: _probes.Memory, size: int, cpus: Mapping[int, tuple[int, ...]], repeats: int
) -> dict[int, float]:
    """Return the best rate of each node whose processors sum equal parts of the memory in turn."""
    everyone = [cpu for of_node in cpus.values() for cpu in of_node]
    block = size // len(everyone) // FRAME_BYTES * FRAME_BYTES
    found = _probes.l2sum(memory, block, block, 1, repeats, everyone, _probes.best_isa())
    if not found.ok:
        raise Failure("measure numa: a sum was wrong; this machine's memory or processor has a defect")
    rates, first = {}, 0
    for node, of_node in cpus.items():
        slowest = found.seconds[:, first : first + len(of_node)].max(axis=1)
        rates[node] = float(block * len(of_node) / slowest.min())
        first += len(of_node)
    return rates


def _latency(memory: _probes.Memory, size: int, cpu: int, repeats: int) -> float:
    found = _probes.latency(memory, size, LINE_BYTES, LOADS, repeats, cpu, _SEED)
    if not found.ok:
        raise Failure("measure numa: a chase went astray; this machine's memory or processor has a defect")
    return float(found.seconds.min() / LOADS)
