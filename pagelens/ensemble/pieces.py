"""What of an ensemble is simulated at a time: one node under one policy, or what its mechanisms cost."""

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
    """How many nodes from node 0 on are there under a policy, without a gap."""
    nodes = {piece.node for piece in complete if piece.policy == policy and not piece.attributed}
    return next(node for node in range(len(nodes) + 1) if node not in nodes)
