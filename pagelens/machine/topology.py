"""What the NUMA nodes of a machine are in numbers. A machine without [numa] is one node."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import LINE_BYTES
from pagelens.machine.memories import Memory
from pagelens.machine.numa import LOCAL_DISTANCE, Numa, NumaLink
from pagelens.units import format_binary_size, format_rate, format_time

Floats = NDArray[np.float64]

# A tier has a range of 128 of Linux's abstract distance. Memory of nodes with cores is at 576, in the middle
# of its own, and the next one begins at 640 (include/linux/memory-tiers.h).
LOWER_TIER = 640 / 576


@dataclass(frozen=True)
class Link:
    """A direction of a link: what data in it move from and to, and how fast."""

    name: str  # as "node 0 to 1"
    source: tuple[int, ...]
    target: tuple[int, ...]
    rate: float  # bytes per second

    def seconds(self, reads: Floats, writes: Floats) -> Floats:
        """Return how long the direction is busy with lines [..., from, to].

        Data that cores read travel from the memory's node, and what they write towards it.
        """
        rows = reads.shape[-2]
        near_source, near_target = (
            [node for node in ends if node < rows] for ends in (self.source, self.target)
        )
        lines = reads[..., near_target, :][..., list(self.source)].sum(axis=(-2, -1))
        lines = lines + writes[..., near_source, :][..., list(self.target)].sum(axis=(-2, -1))
        return np.asarray(LINE_BYTES * lines / self.rate)


@dataclass(frozen=True)
class Topology:
    """The NUMA nodes of a machine as numbers. A machine without [numa] is one node."""

    cores: tuple[int, ...]  # of each node
    sizes: tuple[int, ...]  # bytes
    latency: Floats  # [row, node] seconds; a row for each node with cores
    bandwidth: Floats  # [row, node] bytes per second
    # [row, node] seconds, of a line that a core of the node has changed; 0 if it costs nothing
    line_latency: Floats
    distances: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]  # pairs of nodes, then what they share
    write_cost: Floats  # [node] how many lines its memory reads in the time that it takes to write one
    directory_writes: float = 0.0  # lines that a node writes for each of its lines that another node reads

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.sizes)

    @property
    def rows(self) -> int:
        """The number of nodes with cores. They come first."""
        return len(self.latency)

    @property
    def memory_bandwidth(self) -> Floats:
        """The bytes per second [node] that each memory gives when nothing else limits it."""
        return _own_rates(self.bandwidth)

    def seconds_of_memories(self, reads: Floats, writes: Floats) -> Floats:
        """Return how long each memory [..., node] is busy with lines [..., from, to].

        Writes take turns with reads. Some lines that other nodes read are also written (`directory_writes`).
        """
        of_others = np.where(self._reads_of_others, reads, 0.0)
        written = (writes + self.directory_writes * of_others).sum(axis=-2)
        return np.asarray(
            LINE_BYTES * (reads.sum(axis=-2) + self.write_cost * written) / self.memory_bandwidth
        )

    @property
    def _reads_of_others(self) -> NDArray[np.bool_]:
        """Whether reads [from, to] are by cores of one node from the memory of another with cores, too."""
        of_others = np.zeros((self.rows, self.nodes), dtype=bool)
        of_others[:, : self.rows] = ~np.eye(self.rows, dtype=bool)
        return of_others

    @property
    def slow_nodes(self) -> tuple[int, ...]:
        """The nodes of a lower tier of memory than those with cores.

        Linux tells tiers by latency over bandwidth, relative to the memory of the nodes with cores
        (drivers/acpi/numa/hmat.c and mm/memory-tiers.c of 6.12).
        """
        own = self.memory_bandwidth
        fast_s, fast_rate = np.diagonal(self.latency).mean(), own[: self.rows].mean()
        far = self.latency.min(axis=0) / fast_s * (fast_rate / own)
        return tuple(node for node in range(self.rows, self.nodes) if far[node] >= LOWER_TIER)

    @property
    def node_of_core(self) -> NDArray[np.uint8]:
        """The node [core] of every core."""
        return np.repeat(np.arange(len(self.cores), dtype=np.uint8), self.cores)


def _own_rates(bandwidth: Floats) -> Floats:
    """Return what each memory [node] gives when nothing else limits it, from the rates [row, node]."""
    own: Floats = np.max(bandwidth, axis=0)
    own[: len(bandwidth)] = np.diagonal(bandwidth)
    return own


def topology_of(
    numa: Numa, links: Sequence[NumaLink], write_cost: float, line_latency_within: float = 0.0
) -> Topology:
    """Return the numbers of a machine file's sections.

    `write_cost` is that of each node, if the nodes do not state their own.
    """
    nodes, bandwidth = len(numa.sizes.value), np.asarray(numa.bandwidths.value, dtype=np.float64)
    found = [
        Link(f"node {node} to {row}", (node,), (row,), bandwidth[row, node])
        for row in range(len(bandwidth))
        for node in range(nodes)
        if node != row
    ]
    # What a node writes to another takes the same way back. A node without cores asks for nothing, so its
    # rate is that of its readers.
    rates = {(link.source, link.target): link.rate for link in found}
    found += [
        Link(f"node {row} to {node}", (row,), (node,), bandwidth[row, node])
        for row in range(len(bandwidth))
        for node in range(nodes)
        if ((row,), (node,)) not in rates and node != row
    ]
    for link in links:
        first, second = link.between.value
        rate = link.rate.value
        back = link.back.value if link.back is not None else rate
        names = [",".join(map(str, end)) for end in (first, second)]
        found += [
            Link(f"nodes {names[0]} to {names[1]}", first, second, rate),
            Link(f"nodes {names[1]} to {names[0]}", second, first, back),
        ]
    flat = tuple(
        tuple(LOCAL_DISTANCE if a == b else 2 * LOCAL_DISTANCE for b in range(nodes)) for a in range(nodes)
    )
    latency = np.asarray(numa.latencies.value, dtype=np.float64)
    of_line = latency.copy()
    np.fill_diagonal(of_line, line_latency_within)
    if numa.line_latencies is not None:
        of_line[:, : len(latency)] = numa.line_latencies.value
    costs = np.full(nodes, write_cost)
    if numa.write_bandwidths is not None:
        costs = _own_rates(bandwidth) / numa.write_bandwidths.value[0]
    return Topology(
        numa.cores.value,
        numa.sizes.value,
        latency,
        bandwidth,
        of_line,
        numa.distances.value if numa.distances is not None else flat,
        tuple(found),
        costs,
        numa.directory_writes.value if numa.directory_writes is not None else 0.0,
    )


def one_node(cores: int, memory: Memory) -> Topology:
    """Return the topology of a machine that has no [numa]."""
    return Topology(
        (cores,),
        (memory.size.value,),
        np.array([[memory.latency.value]]),
        np.array([[memory.bandwidth.value]]),
        np.zeros((1, 1)),
        ((LOCAL_DISTANCE,),),
        (),
        np.array([memory.write_cost]),
    )


def matrix_lines(topology: Topology) -> list[tuple[str, str]]:
    """Return rows (name, text) that describe the nodes, for a drawing of the machine."""
    lines = [
        (
            f"NUMA node {node}",
            f"{count} cores, {format_binary_size(size)}"
            if count
            else f"no cores, {format_binary_size(size)}",
        )
        for node, (count, size) in enumerate(zip(topology.cores, topology.sizes, strict=True))
    ]
    for row in range(topology.rows):
        name, _ = lines[row]
        seen = ", ".join(
            f"{node}: {format_time(latency)} {format_rate(rate)}"
            for node, (latency, rate) in enumerate(
                zip(topology.latency[row], topology.bandwidth[row], strict=True)
            )
        )
        lines[row] = (name, f"{lines[row][1]}; {seen}")
    return lines
