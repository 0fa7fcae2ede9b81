"""The frames that the pages of a job get on one node, as a simulation takes them."""

from dataclasses import dataclass

from pagelens import _core
from pagelens.address.units import FRAME_BITS
from pagelens.frames import Node, Policy
from pagelens.frames.numa_rule import FIRST_TOUCH, NumaRule
from pagelens.machine import Machine


@dataclass(frozen=True)
class Placement:
    """The frames of all ranks' pages, and what belongs to them. A placement can be replayed many times."""

    frames: _core.Placement
    machine: Machine  # the machine with the policy's setting
    page_bits: int = FRAME_BITS  # log2 of the size in bytes of the pages that large mappings get
    offset_bytes: int = 0  # additional distance of large arrays (`Workload.compile`)
    numa: NumaRule = FIRST_TOUCH
    node: int = 0  # draws which slots are sampled, and the cores' frequency
    alike: str | None = None  # equal strings stand for equal frames, on whatever nodes


def place(policy: Policy, machine: Machine, node: Node) -> Placement:
    """Return the placement of `policy` on the free memory of `node`.

    Raises UsageError if it is impossible.
    """
    own = policy.machine(machine)
    return Placement(
        policy.place(own, node),
        own,
        policy.page_bits,
        policy.offset_bytes,
        policy.numa,
        node.node,
        policy.name if policy.places_alike(node) else None,
    )
