"""Random frames, which a node's free lists come to resemble after many jobs."""

from pagelens import _core
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import Node
from pagelens.frames.policies.policy import Policy
from pagelens.machine import Machine


def _random(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_at_random(machine.frames, node.seed, node.node)


def _deterministic(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_at_random(machine.frames, 0, 0)


POLICIES = (
    Policy("random", "4 KiB pages, independent random frames", _random, compared=True),
    Policy("deterministic", "4 KiB pages, one random map for all nodes and runs", _deterministic),
)
