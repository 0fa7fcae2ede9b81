"""The kernel's rules for NUMA nodes, written as slowly and plainly as its own code says them.

Sources: find_next_best_node() and build_zonelists() of mm/page_alloc.c, and interleave_nid(),
weighted_interleave_nid() and policy_nodemask() of mm/mempolicy.c, Linux 6.12.
"""

from collections.abc import Sequence

MAX_NUMNODES = 1024


def fallback_order(
    node: int, cpus: Sequence[int], far: Sequence[Sequence[int]], load: list[int]
) -> list[int]:
    """The nodes that a node's requests try; `load` is node_load[], which lasts from node to node."""
    order, used, previous = [node], {node}, node
    while len(order) < len(far):
        values = {}
        for other in range(len(far)):
            if other in used:
                continue
            value = far[node][other]
            if other < node:
                value += 1
            if other in cpus:
                value += 1
            values[other] = value * MAX_NUMNODES + load[other]
        best = min(values, key=lambda other: (values[other], other))
        if far[node][best] != far[node][previous]:
            load[best] += 1
        used.add(best)
        order.append(best)
        previous = best
    return order


def fallback_orders(cpus: Sequence[int], far: Sequence[Sequence[int]]) -> list[list[int]]:
    """The orders of all nodes. `cpus` has the node of every CPU."""
    load = [0] * len(far)
    return [fallback_order(node, cpus, far, load) for node in range(len(far))]


def home(mode: str, nodes: Sequence[int], weights: Sequence[int], cpu_node: int, index: int) -> int:
    """The node where a page's search begins; `nodes` are those of the policy, ascending."""
    if mode == "interleave":
        return nodes[index % len(nodes)]
    if mode == "weighted_interleave":
        turn = [node for node in nodes for _ in range(weights[node])]
        return turn[index % len(turn)]
    return nodes[0] if mode == "preferred" else cpu_node


class Pages:
    """Free frames by node; what a policy gives, page by page, until all are full."""

    def __init__(self, free: Sequence[int], orders: Sequence[Sequence[int]]) -> None:
        self.free, self.orders = list(free), orders

    def take(self, begin: int, allowed: Sequence[int]) -> int | None:
        """The first node of the order of `begin` that is allowed and has a frame."""
        for node in self.orders[begin]:
            if node in allowed and self.free[node] > 0:
                self.free[node] -= 1
                return node
        return None
