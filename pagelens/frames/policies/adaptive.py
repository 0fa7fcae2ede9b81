"""Pages that move to random frames when conflicts increase (Ferreira, Pedretti, Brightwell, CUG 2008)."""

from pagelens import _core
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import Node
from pagelens.frames.policies.policy import Costs, Policy
from pagelens.frames.policies.remedy import Remedy
from pagelens.machine import Machine

SHUFFLE_ABOVE = 0.25  # share of lines that push another one out of the cache (assumed)


def _adaptive(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_adaptively(at.state, SHUFFLE_ABOVE, node.seed, node.node)


POLICIES = (
    Policy(
        "adaptive",
        "4 KiB pages on the aged node, moved to random frames when conflicts climb while the program runs",
        _adaptive,
        costs=Costs(root="a kernel that watches the counter of conflicts and migrates pages"),
        remedy=Remedy(),
    ),
)
