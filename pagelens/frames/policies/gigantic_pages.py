"""Pages of 1 GiB, which the kernel sets aside at boot."""

from dataclasses import dataclass

from pagelens import _core
from pagelens.address.units import GIGANTIC_PAGE_BITS, GIGANTIC_PAGE_BYTES
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import Node
from pagelens.frames.policies.commands import at_boot
from pagelens.frames.policies.policy import Costs, Policy
from pagelens.frames.policies.remedy import Host, Job, Remedy, RunOptions
from pagelens.machine import Machine


@dataclass(frozen=True)
class GiganticPages(Remedy):
    """Uses `pagelens run --pages 1g` if the pool has pages."""

    summary = "1 GiB pages, kept from boot"

    def run_options(self, job: Job, host: Host) -> RunOptions | str:
        """Require a pool with room for the whole job."""
        if host.free_pool_bytes.get(GIGANTIC_PAGE_BYTES, 0) >= job.size_bytes:
            return RunOptions("1g", GIGANTIC_PAGE_BYTES)
        return "the pool has too few free pages of 1 GiB (hugepagesz=1G hugepages= at boot)"

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return how to boot with as many pages as the job needs."""
        return at_boot(f"hugepagesz=1G hugepages={-(-job.size_bytes // GIGANTIC_PAGE_BYTES)}")


def _gigantic(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_in_gigabytes(at.state)


POLICIES = (
    Policy(
        "1g",
        "1 GiB pages reserved at boot",
        _gigantic,
        page_bits=GIGANTIC_PAGE_BITS,
        costs=Costs(
            root="the boot option hugepages=N",
            memory="up to 1 GiB more a mapping",
            code="hugetlbfs or libhugetlbfs",
        ),
        remedy=GiganticPages(),
        compared=True,
        decided_by="state of the node",
    ),
)
