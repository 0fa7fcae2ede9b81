"""The steps that a history can do to a node, be it a guest or a model of one."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pagelens.lab.measured import Frames
from pagelens.lab.memory_work import Steps

BlocksByOrder = NDArray[np.int64]


class AgedNode(Protocol):
    """The steps that a history can do to a node."""

    def work(self, name: str, steps: Steps) -> Frames:
        """Let one process do the work and end. Return the frames that it held at its `look`."""

    def hold(self, name: str, steps: Steps) -> None:
        """Let a process do the work, and keep what it then has for good."""

    def drop_caches(self) -> None:
        """Free the page cache."""

    def compact(self) -> None:
        """Compact all zones."""

    def zonesort(self, rule: str, evacuate: bool) -> None:
        """Sort the free lists for the memory-side cache by a rule: ours, intel, or address."""

    def free_blocks(self) -> BlocksByOrder:
        """Return the free blocks of each order."""
