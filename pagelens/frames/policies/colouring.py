"""Page colouring: the job always gets a free page whose slots hold the fewest of its pages.

With 2 MiB pages this is the static policy of Johnny Cache (Lepers and Zwaenepoel, OSDI'23).
"""

from dataclasses import dataclass, replace

from pagelens import _core
from pagelens.address.units import HUGE_PAGE_BITS
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import Node
from pagelens.frames.policies.huge_pages import HugePages
from pagelens.frames.policies.policy import HUGE_ORDER, SMALL_ORDER, Costs, Policy
from pagelens.frames.policies.remedy import Host, Job, Remedy, RunOptions
from pagelens.machine import Machine


@dataclass(frozen=True)
class ChosenFrames(Remedy):
    """Chooses frames with `pagelens run --frames best`, on 4 KiB pages or on another remedy's pages."""

    pages: Remedy | None = None

    summary = "frames chosen evenly"

    def run_options(self, job: Job, host: Host) -> RunOptions | str:
        """Require physical frame numbers, and a cache in which frames conflict."""
        base = self.pages.run_options(job, host) if self.pages is not None else RunOptions()
        if isinstance(base, str):
            return base
        if not host.sees_frames:
            return "frames are shown to root only (CAP_SYS_ADMIN)"
        if host.virtual_machine:
            return "this is a virtual machine, whose frames are not those of the memory"
        cache_bytes = conflicting_cache_bytes(job.machine)
        if not cache_bytes:
            return "there is no memory-side cache to choose frames for"
        return replace(base, cache_bytes=cache_bytes)

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return how to run a program with it."""
        pages = " --pages 2m" if self.pages is not None else ""
        return (f"sudo pagelens run{pages} --frames best -- ./app",)


def conflicting_cache_bytes(machine: Machine) -> int:
    """Return the size of the memory-side cache in whose slots frames conflict; 0 if there is none."""
    return 0 if machine.ideal else machine.memory_side_bytes


def _coloured(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_by_colour(at.state.memory, at.slots, SMALL_ORDER)


def _least_populated(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_by_colour(at.state.memory, at.slots, HUGE_ORDER)


POLICIES = (
    Policy(
        "coloured",
        "4 KiB pages, frames chosen to fill the slots evenly",
        _coloured,
        costs=Costs(
            root="CAP_SYS_ADMIN to read frame numbers",
            memory="as much again while choosing",
            code="preloaded library",
        ),
        remedy=ChosenFrames(),
    ),
    Policy(
        "johnny-static",
        "2 MiB pages, each into the least populated part of the cache (Johnny Cache's static policy)",
        _least_populated,
        page_bits=HUGE_PAGE_BITS,
        costs=Costs(
            root="two hook patches to the kernel, or frame numbers read with CAP_SYS_ADMIN",
            memory="up to 2 MiB more a mapping",
            code="hugetlbfs",
        ),
        remedy=ChosenFrames(HugePages()),
    ),
)
