"""Which frames the pages of a job get on one node, as a simulation takes it."""

from dataclasses import dataclass

from pagelens import _core
from pagelens.address.units import FRAME_BITS
from pagelens.frames import Node, Policy
from pagelens.machine import Machine


@dataclass(frozen=True)
class Placement:
    """The frames of all ranks' pages, and what comes with them. A placement can be replayed many times."""

    frames: _core.Placement
    machine: Machine  # as the policy has it set
    page_bits: int = FRAME_BITS  # log2 of the size in bytes of the pages that large mappings get
    offset_bytes: int = 0  # by how much further apart large arrays lie (`Workload.compile`)
    node: int = 0  # draws which slots are sampled, and the cores' frequency


def place(policy: Policy, machine: Machine, node: Node) -> Placement:
    """What `policy` makes of the free memory of `node`. Raises UsageError where it cannot."""
    own = policy.machine(machine)
    return Placement(policy.place(own, node), own, policy.page_bits, policy.offset_bytes, node.node)
