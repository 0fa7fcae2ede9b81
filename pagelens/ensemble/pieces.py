"""The units of work of an ensemble: one node under one policy, or the attribution of a node."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Piece:
    """A node under the policy of this number, or the attribution of a node.

    Pieces are simulated in their order: all policies of a node follow each other, because the node runs its
    history once for all of them. Attributions come last, because no distribution waits for them.
    """

    attributed: bool
    node: int
    policy: int  # its number in the order of `Ensemble.policies`

    @property
    def name(self) -> str:
        """A name for files."""
        return f"{self.node:05d}-{self.policy}{'-attributed' if self.attributed else ''}"


def leading_nodes(complete: set[Piece], policy: int) -> int:
    """Return how many nodes are complete under a policy, from node 0 on, without a gap."""
    nodes = {piece.node for piece in complete if piece.policy == policy and not piece.attributed}
    return next(node for node in range(len(nodes) + 1) if node not in nodes)
