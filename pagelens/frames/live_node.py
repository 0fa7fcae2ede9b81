"""A node while its history runs: the state of its page allocator, and what the steps need beside it."""

from dataclasses import dataclass, field, replace

from pagelens import _core
from pagelens.frames.mix import JobMix, load_mix
from pagelens.frames.numa_rule import layout
from pagelens.machine import Machine
from pagelens.machine.schema import FEWEST_FRAMES

KERNELS: tuple[str, ...] = tuple(_core.kernel_versions())  # whose allocators are modelled, the usual first


@dataclass
class LiveNode:
    """The state of a node between two steps. Steps change it; `branch` copies it."""

    machine: Machine
    grain: int
    scale: float  # what the sizes of the history are multiplied by; below 1 if the machine was shrunk
    job_bytes: float | None  # the memory of the program that is simulated, if there is one
    state: _core.NodeState
    mix: JobMix = field(default_factory=lambda: load_mix("cori"))  # the mix of the latest ageing
    jobs_since_boot: int = 0
    offline: tuple[tuple[int, int], ...] = ()  # frames

    @staticmethod
    def fresh(machine: Machine, grain: int, scale: float, job_bytes: float | None) -> "LiveNode":
        """Return a node fresh from boot, with the machine's NUMA nodes."""
        return LiveNode(machine, grain, scale, job_bytes, _booted(machine, grain, 1, KERNELS[0]))

    @property
    def frames(self) -> int:
        """The frames of the node's memory, which are pages of its kernel."""
        return self.machine.frames >> self.machine.page_order

    @property
    def page_bytes(self) -> int:
        """The size of a frame."""
        return self.machine.page_bytes

    @property
    def slots(self) -> int:
        """The slots of the memory-side cache, rounded up to whole blocks of order 10.

        Without such a cache they are the frames of the fast or only memory.
        """
        slots = self.machine.slots >> self.machine.page_order
        return -(-slots // FEWEST_FRAMES) * FEWEST_FRAMES

    def branch(self) -> "LiveNode":
        """Return an independent copy."""
        return replace(self, state=_core.NodeState(self.state))

    def boot(self, numas: int, kernel: str) -> None:
        """Frees everything, with memory in that many NUMA nodes and this version's allocator."""
        self.state = _booted(self.machine, self.grain, numas, kernel)
        self.jobs_since_boot = 0
        self.offline = ()

    def run_job(self, size_bytes: float, random: _core.Random) -> None:
        """Run one job of that size to its end."""
        self.jobs_since_boot += 1
        self.state.run_job(size_bytes / self.page_bytes, self.mix.to_core(self.page_bytes), random)

    def take_offline(self, begin: int, end: int) -> bool:
        """Take frames [begin, end) offline. Return False if something in them cannot move."""
        if not self.state.take_offline(begin, end):
            return False
        self.offline = (*self.offline, (begin, end))
        return True

    def bring_online(self) -> None:
        """Bring back all that is offline, in order of address."""
        for begin, end in sorted(self.offline):
            self.state.bring_online(begin, end)
        self.offline = ()


def _booted(machine: Machine, grain: int, numas: int, kernel: str) -> _core.NodeState:
    if numas == 1 and machine.numa is not None:
        return _core.NodeState(layout(machine, kernel), grain)
    cores, order = machine.cores.count.value, machine.page_order
    booted = _core.linux_layout(machine.frames >> order, numas, cores, machine.low_pages, order, kernel)
    return _core.NodeState(booted, grain)
