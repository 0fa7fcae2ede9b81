"""NUMA nodes as large as the memory-side cache: a job bound to one of them has no conflicts."""

from dataclasses import dataclass

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import Node
from pagelens.frames.policies.commands import at_boot
from pagelens.frames.policies.policy import Costs, Policy
from pagelens.frames.policies.remedy import Host, Job, Remedy
from pagelens.machine import Machine


def boot_with_fake_nodes(memory_bytes: int, cache_bytes: int) -> tuple[str, ...]:
    """Return how to boot with memory cut into nodes of at most `cache_bytes`."""
    return at_boot(f"numa=fake={-(-memory_bytes // cache_bytes)}U")


@dataclass(frozen=True)
class FakeNodes(Remedy):
    """An option of the kernel's command line. Jobs are then bound to a node."""

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return how to boot with it; nothing on a machine without a memory-side cache."""
        cache_bytes = job.machine.memory_side_bytes
        return boot_with_fake_nodes(job.machine.frames * FRAME_BYTES, cache_bytes) if cache_bytes else ()


def _numa_node(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_by_numa_node(at.state)


POLICIES = (
    Policy(
        "numa-fake",
        "4 KiB pages, bound to NUMA nodes as large as the cache",
        _numa_node,
        boot={"fake": True},
        costs=Costs(root="numa=fake= at boot", code="numactl, or --mem-bind of the batch system"),
        remedy=FakeNodes(),
    ),
)
