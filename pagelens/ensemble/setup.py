"""What decides the rows of a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.frames import Policy, Step
from pagelens.machine import Machine
from pagelens.replay.dram_rows import RowsBehind
from pagelens.replay.translation import Translations
from pagelens.replay.whole_node import NodePrograms


@dataclass(frozen=True)
class Setup:
    """All that does, beside the node's number; shared by the nodes."""

    workload: Workload
    machine: Machine
    policies: Mapping[str, Policy]
    history: Sequence[Step]
    scale: float  # of the machine's capacities, and so of the sizes in the history
    seed: int
    ranks: int
    cores_used: int
    sampled: int  # one slot of the memory-side cache in so many is simulated
    node_programs: NodePrograms  # of a machine without such a cache
    translations: Translations  # of a machine with one
    rows_behind: RowsBehind  # likewise
    attributed: int  # nodes 0 .. attributed - 1 are replayed without their mechanisms, too

    @property
    def job_bytes(self) -> int:
        """Of all ranks, at the peak."""
        return self.workload.footprint_bytes * self.ranks

    def instructions(self, program: _core.Program) -> NDArray[np.float64]:
        """[phase] that all ranks execute."""
        of_threads = np.asarray(program.instructions, dtype=np.float64).reshape(len(self.workload.phases), -1)
        return np.asarray(self.ranks * of_threads.sum(axis=1))
