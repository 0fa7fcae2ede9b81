"""How the pages and threads of a job are spread over NUMA nodes, as a user can ask for."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.machine import Machine

MOST_WEIGHT = 8  # of weighted interleave; the kernel takes up to 255, but whole pages come in turns of it


@dataclass(frozen=True)
class NumaRule:
    """The memory policy of pages, and where threads run.

    `touch` stands for pages that the thread touches first that uses them later, and `replicate` for a copy on
    each node of the objects that are written once and then read. With `objects`, only pages that were first
    touched for one of these have the policy, and the others have none.
    """

    mode: Literal["local", "interleave", "weighted", "touch", "replicate"] = "local"
    threads: Literal["spread", "close", "unbound"] = "spread"
    objects: tuple[str, ...] | None = None
    balanced: bool = False  # by the kernel's NUMA balancing
    tiered: bool = False  # the kernel promotes and demotes pages between tiers of memory
    longer: int = 1  # the program goes on so many times as long, which what happens by the clock needs

    @property
    def moves_pages(self) -> bool:
        """Whether the kernel moves pages while the program runs."""
        return self.balanced or self.tiered

    def policies(self, machine: Machine) -> list[_core.NumaPolicy]:
        """Return the policy of all other pages, then that of the chosen ones."""
        none = _core.NumaPolicy(_core.NumaMode.local)
        if self.mode == "interleave":
            nodes = (1 << machine.topology.rows) - 1  # those with cores: memory alone is slower or scarce
            return [none, _core.NumaPolicy(_core.NumaMode.interleave, nodes)]
        if self.mode == "weighted":
            nodes = (1 << machine.topology.nodes) - 1
            return [
                none,
                _core.NumaPolicy(_core.NumaMode.weighted_interleave, nodes, bandwidth_weights(machine)),
            ]
        return [none, none]


STAY_S = 10.0  # that an unbound thread stays on a node on average (assumed: 1 to 100 s)

FIRST_TOUCH = NumaRule()  # what the kernel does unless it is asked for something else


def bandwidth_weights(machine: Machine) -> list[int]:
    """Return a weight for each node, in proportion to what its memory gives, the least being 1."""
    rates = machine.topology.memory_bandwidth
    steps = rates / rates.min()
    scale = min(1.0, MOST_WEIGHT / steps.max())
    return [max(1, round(step * scale)) for step in steps]


def cores_of_threads(machine: Machine, threads: int, rule: NumaRule) -> NDArray[np.uint32]:
    """Return the core [thread] of each of a job's threads, in the order of their ranks.

    `close` fills one node after the other, as OMP_PROC_BIND=close does, and `spread` keeps equal distances,
    as OMP_PROC_BIND=spread and the scheduler's own balance do. `unbound` begins so.
    """
    numbers = np.arange(threads, dtype=np.uint32)
    cores = machine.cores.count.value
    if rule.threads == "close" or threads >= cores:
        return numbers
    return np.asarray(numbers.astype(np.uint64) * cores // threads, dtype=np.uint32)


def ends_of_nodes(machine: Machine) -> list[int]:
    """Return the first frame number past each node's memory. Nodes lie one after the other."""
    return [int(end) for end in np.cumsum(machine.topology.sizes) // FRAME_BYTES]


def layout(machine: Machine, kernel: str) -> _core.Layout:
    """Return the memory of a machine with several NUMA nodes, as this version of Linux lays it out."""
    topology = machine.topology
    return _core.numa_layout(
        [size // machine.page_bytes for size in topology.sizes],
        topology.node_of_core.tolist(),
        [distance for row in topology.distances for distance in row],
        machine.low_pages,
        machine.page_order,
        kernel,
    )
