"""The lines that threads take from each other's caches, on machines of several NUMA nodes.

The counts are those of the program alone (core/accesses/line_sharing.hpp): frames do not change which thread
takes a line from which. Where threads run decides which NUMA node the line comes from.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.machine.topology import Topology

Floats = NDArray[np.float64]

RARE = (1 << 64) - 1  # the number of all lines that are taken rarely, together


@dataclass(frozen=True)
class SharedLines:
    """Lines taken from the caches of other cores, and how long the busiest one is under way."""

    taken: Floats  # [phase, object, from, to] by cores of a node, from those of a node, which may be the same
    busiest_s: Floats  # [phase] seconds


def shared_lines(
    rows: NDArray[np.uint64], topology: Topology, node_of_thread: NDArray[np.uint8], phases: int, objects: int
) -> SharedLines | None:
    """Return what threads take from each other; None if the program states nothing.

    `rows` are a program's `taken_lines`, and `node_of_thread` has the nodes [copy, thread] of the threads of
    all copies of the program. Threads of one node take lines from each other at no cost if the machine states
    none.

    A line is in one place at a time, so the times that it is under way add up.
    """
    if not len(rows):
        return None
    taken = np.zeros((phases, objects, topology.nodes, topology.nodes))
    busiest_s = np.zeros(phases)
    phase, of_object, giver, taker = rows[:, :4].T.astype(np.intp)
    line, count = rows[:, 4], rows[:, 5].astype(np.float64)
    pairs, of_pair = np.unique(np.stack([rows[:, 0], line], axis=1), axis=0, return_inverse=True)
    for nodes in node_of_thread:
        latency = topology.line_latency[nodes[taker], nodes[giver]]
        np.add.at(taken, (phase, of_object, nodes[taker], nodes[giver]), count)
        seconds = count * latency
        of_line = np.bincount(of_pair.ravel(), seconds, minlength=len(pairs))
        of_line[pairs[:, 1] == RARE] = 0
        np.maximum.at(busiest_s, pairs[:, 0].astype(np.intp), of_line)
    return SharedLines(taken, busiest_s)


def longest_s(rows: NDArray[np.uint64], topology: Topology, phases: int) -> Floats:
    """Return the most seconds [phase] that a program's `taken_lines` can cost, wherever its threads run.

    Each line then comes from the farthest node, one after the other. Copies of the program wait side by side.
    """
    counts = np.bincount(rows[:, 0].astype(np.intp), rows[:, 5].astype(np.float64), minlength=phases)
    return counts * (topology.line_latency.max() if topology.nodes > 1 else 0.0)
