"""Contiguous frames, as a light-weight kernel such as Catamount gives them."""

from pagelens import _core
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import Node
from pagelens.frames.policies.policy import Costs, Policy
from pagelens.machine import Machine


def _contiguous(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_contiguously(machine.frames)


POLICIES = (
    Policy(
        "contiguous",
        "contiguous frames from the bottom of memory",
        _contiguous,
        costs=Costs(root="a reboot or another kernel"),
        compared=True,
        decided_by="nothing else",
    ),
)
