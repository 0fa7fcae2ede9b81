"""The lines between the nodes of a machine with several NUMA nodes, and the seconds that they take."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.machine.topology import Topology

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumaLoad:
    """Whose lines of memory each row has, on a machine of several NUMA nodes.

    `without_links` and `without_crowding` make the other nodes as near as one's own memory, and each node's
    memory serve what its own cores ask for.
    """

    reads: Floats  # [row, from, to] shares of its reads by the cores of a node from a node's memory
    writes: Floats
    cores: Floats  # [from] that execute the program's threads
    without_links: bool = False
    without_crowding: bool = False
    taken: Floats | None = None  # [row, from, to] lines that cores of a node take from caches of a node
    busiest_line_s: Floats | None = None  # [row] that the most taken of these lines is under way
    kernel_s: Floats | None = None  # seconds [row] of NUMA balancing, which all cores share


def all_local(topology: Topology, cores_used: int) -> NumaLoad:
    """Return the load of a job whose pages all lie on the nodes of the cores that use them."""
    own = np.eye(topology.rows, topology.nodes)[None] / topology.rows
    return NumaLoad(own, own, np.full(topology.rows, cores_used / topology.rows))


def memory_times(
    topology: Topology, reads: Floats, writes: Floats, load: NumaLoad
) -> tuple[Floats, dict[str, Floats]]:
    """Return the seconds [row] of the memories and of the links that move these lines [row, from, to]."""
    at_home = np.arange(topology.rows)

    def served(lines: Floats) -> Floats:
        if not load.without_crowding:
            return lines
        by_own = np.zeros_like(lines)
        by_own[:, at_home, at_home] = lines.sum(axis=2)
        return by_own

    memories = np.max(topology.seconds_of_memories(served(reads), served(writes)), axis=1)
    if load.without_links or not topology.links:
        return memories, {}
    moved = reads if load.taken is None else reads + load.taken
    return memories, {"links": np.max([link.seconds(moved, writes) for link in topology.links], axis=0)}


def waiting_time(topology: Topology, reads: Floats, load: NumaLoad, cores_used: int) -> Floats:
    """Return the seconds [row] that cores wait for these lines [row, from, to] if one comes at a time.

    That is of all cores together, if those of every node waited as long as those of the node whose cores wait
    longest.
    """
    latency = topology.latency
    if load.without_links:
        latency = np.broadcast_to(np.diagonal(latency)[:, None], latency.shape)
    waits = (reads * latency).sum(axis=2)  # [row, from]
    if load.taken is not None:
        waits = waits + (load.taken * topology.line_latency).sum(axis=2)
    used = load.cores > 0
    return np.asarray(np.max(waits[:, used] * (cores_used / load.cores[used]), axis=1))
