"""The state of a guest's page allocator, in a form that a model of it can start from."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import HUGE_PAGE_FRAMES
from pagelens.errors import Failure
from pagelens.host.native_files import native_file
from pagelens.host.zone_layout import read_layout
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import Kernel
from pagelens.lab.measured import TOOL, MeasuredGuest
from pagelens.lab.modules import build_module

ORDERS = 11  # of free blocks: 0 to 10

_MODULE = "/lab/pagelens_state.ko"
_FILE = "/proc/pagelens_state"
_WAIT_MS = 100  # until the command that asks for a picture is gone, so that its pages are not in it

# Types of the kernel (include/linux/mmzone.h) that the model has under another number or not at all:
# HIGHATOMIC 3 and CMA 4 are for few requests, ISOLATE is the last.
_MODEL_TYPES = np.array([0, 1, 2, 0, 1, 3, 3, 3], dtype=np.uint32)

Blocks = NDArray[np.uint32]


@dataclass(frozen=True)
class Picture:
    """The allocator at one instant. Its arrays are those that `_core.Memory.taken_over` takes."""

    layout: _core.Layout
    free: Blocks = field(repr=False)  # (frame, order, type): each list head first
    cached: Blocks = field(repr=False)  # (cpu, frame, order, type): the per-cpu lists
    use: NDArray[np.uint8] = field(repr=False)
    pageblocks: NDArray[np.uint8] = field(repr=False)

    def model(self) -> _core.Memory:
        """Return a model in this state."""
        return _core.Memory.taken_over(self.layout, self.free, self.cached, self.use, self.pageblocks)

    @property
    def blocks_by_order(self) -> NDArray[np.int64]:
        """Free blocks of each order, all zones together."""
        return np.bincount(self.free[:, 1], minlength=ORDERS).astype(np.int64)

    @property
    def usable_frames(self) -> NDArray[np.int64]:
        """All free frames, list by list."""
        return np.concatenate([np.arange(f, f + (1 << order)) for f, order, _ in self.free.tolist()])


def add_state_module(root: Initramfs, kernel: Kernel) -> None:
    """Put the module that takes pictures into a guest's root."""
    root.add(_MODULE, build_module(native_file("state"), kernel))


def take_picture(guest: MeasuredGuest) -> Picture:
    """Return the state of a guest that has the module in its root."""
    if guest.run("test", "-e", _FILE).status != 0:
        guest.run("insmod", _MODULE).checked()
    guest.handed_over()
    guest.shell(f"echo {_WAIT_MS} > {_FILE}").checked()
    time.sleep(2 * _WAIT_MS / 1000)
    guest.run(TOOL, "send", _FILE).checked()
    words = np.frombuffer(guest.handed_over(), dtype=np.uint64)
    if words.size == 0:
        raise Failure("the guest's picture of its allocator is empty")
    return _decode(words, read_layout(guest.run("cat", "/proc/zoneinfo").checked()))


def _decode(words: NDArray[np.uint64], layout: _core.Layout) -> Picture:
    def bits(first: int, end: int) -> Blocks:
        return (words >> np.uint64(first) & np.uint64((1 << end - first) - 1)).astype(np.uint32)

    frame = bits(0, _core.WORD_MIDDLE_BIT)
    middle = bits(_core.WORD_MIDDLE_BIT, _core.WORD_TYPE_BIT)
    mtype = _MODEL_TYPES[bits(_core.WORD_TYPE_BIT, _core.WORD_ORDER_BIT)]
    order = bits(_core.WORD_ORDER_BIT, _core.WORD_KIND_BIT)
    kind = bits(_core.WORD_KIND_BIT, 64)

    def columns(of: _core.WordKind, *arrays: Blocks) -> Blocks:
        return np.ascontiguousarray(np.stack([array[kind == of.value] for array in arrays], axis=1))

    use = np.full(layout.frames, _core.FRAME_HOLE, dtype=np.uint8)
    for zone in layout.zones:
        use[zone.begin : zone.end] = _core.FRAME_PINNED
    for what, state in (
        (_core.WordKind.movable, _core.FRAME_MOVABLE),
        (_core.WordKind.hole, _core.FRAME_HOLE),
    ):
        for first, count in columns(what, frame, middle).tolist():
            use[first : first + count] = state
    pageblocks = np.zeros(-(-layout.frames // HUGE_PAGE_FRAMES), dtype=np.uint8)
    blocks = columns(_core.WordKind.pageblock, frame, mtype)
    pageblocks[blocks[:, 0] // HUGE_PAGE_FRAMES] = blocks[:, 1]
    return Picture(
        layout,
        columns(_core.WordKind.free, frame, order, mtype),
        columns(_core.WordKind.cached, middle, frame, order, mtype),
        use,
        pageblocks,
    )
