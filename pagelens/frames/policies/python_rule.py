"""A placement rule written in Python, on numpy arrays of frame numbers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pagelens import _core
from pagelens.address.units import FRAME_BITS
from pagelens.errors import UsageError
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import Node
from pagelens.machine import Machine

KEPT_SHARE = 1 / 64  # of the free frames, for page tables, which take 1/512 of what they map

ChooseFrames = Callable[[NDArray[np.uint32], int], ArrayLike]


@dataclass(frozen=True)
class PythonRule:
    """Asks a function for the frames of a job. `placed_by` returns such a rule."""

    choose: ChooseFrames
    page_bits: int = FRAME_BITS

    def __call__(self, machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
        """Place a job on the node. Raises UsageError if the function returns anything but free frames."""
        free = free_frames(at.state.memory)
        pages = len(free) - int(len(free) * KEPT_SHARE)
        chosen = np.asarray(self.choose(free.copy(), pages))
        self._check(chosen, free, pages)
        given = np.ascontiguousarray(chosen, dtype=np.uint32)
        return _core.place_as_given(given, machine.frames, self.page_bits - FRAME_BITS)

    def _check(self, chosen: NDArray[np.generic], free: NDArray[np.uint32], pages: int) -> None:
        name = getattr(self.choose, "__name__", "the rule")
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            raise UsageError(
                f"{name}: returned {chosen.dtype}{list(chosen.shape)}; return frame numbers, uint32[pages]"
            )
        if not 0 < len(chosen) <= pages:
            raise UsageError(f"{name}: returned {len(chosen)} frames; return 1 to {pages}")
        is_left = np.zeros(int(free[-1]) + 1, dtype=bool)
        is_left[free] = True
        if chosen.min() < 0 or chosen.max() >= len(is_left) or not is_left[chosen].all():
            raise UsageError(f"{name}: returned a frame that is not free; choose from its first argument")
        is_left[chosen] = False
        if np.count_nonzero(is_left) != len(free) - len(chosen):
            raise UsageError(f"{name}: returned a frame twice; a frame holds one page")


def placed_by(choose: ChooseFrames, page_bits: int = FRAME_BITS) -> PythonRule:
    """Make a rule for `Policy` of the function `choose(free, pages)`.

    `free` are the numbers of the frames of 4 KiB that are free on the node, uint32[n], ascending. The
    function returns the frames that the job's pages get, uint32[at most `pages`], in the order of their
    virtual addresses; the job takes as many of them as it has pages. A free frame may stand once. Frames that
    it leaves out hold the job's page tables. With `page_bits` 21, pages of 2 MiB are given where 512
    neighbouring frames begin at a multiple of 512.

    Such a rule places one process whose pages have neighbouring addresses: a declared workload with one rank.
    Raises UsageError when the job is placed and the function returned anything else.

    >>> from pagelens.frames import Policy
    >>> highest = placed_by(lambda free, pages: free[::-1][:pages])
    >>> mine = Policy("highest", "the highest free frames first", highest)
    """
    return PythonRule(choose, page_bits)


def free_frames(memory: _core.Memory) -> NDArray[np.uint32]:
    """Return the numbers of all frames in the free lists, uint32[n], ascending."""
    blocks = memory.free_blocks()
    blocks = blocks[np.argsort(blocks[:, 0])]
    sizes = np.left_shift(1, blocks[:, 1]).astype(np.uint32)
    ends = np.cumsum(sizes, dtype=np.uint32)
    # The n-th free frame lies as far behind n as its block begins behind the free frames before it.
    behind = blocks[:, 0].astype(np.uint32) - (ends - sizes)
    frames: NDArray[np.uint32] = np.arange(sizes.sum(), dtype=np.uint32) + np.repeat(behind, sizes)
    return frames
