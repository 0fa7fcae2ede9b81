"""Compares the model of the allocator with the real one, over the same histories, step by step.

The model starts from the guest's state when a history begins, and never sees the guest again. After each step
both run a program of a given size. Compared are its conflict share and the free blocks of each order. The
share is the mean over caches of several sizes. At a single size, one block of 4 MiB that comes sooner or
later makes 8 points of a program of 102 MiB, and guests differ by such a block from boot to boot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pagelens.errors import UsageError
from pagelens.lab.aged_node import AgedNode, BlocksByOrder
from pagelens.lab.allocator_state import Picture, add_state_module, take_picture
from pagelens.lab.emulator import Hardware, find_qemu
from pagelens.lab.guest_node import GuestNode
from pagelens.lab.history import Schedule, Scheduler
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.jobs import run_work
from pagelens.lab.kernels import Kernel
from pagelens.lab.measured import Frames, MeasuredGuest, MemorySide
from pagelens.lab.memory_work import Steps
from pagelens.lab.model_node import ModelNode
from pagelens.machine import Machine

TOLERANCE = 0.05  # of a conflict share
SHAPE_TOLERANCE = 0.05  # of free memory that lies in blocks of another size class: see shape_distance

# The histories end with a conflict share near 0, near 1 or, mostly, in between, where the order of the lists
# decides. Sizes are for a guest of 2 GiB.
DEFAULT_HISTORIES = (
    "job(202MB)",
    "job(602MB); job(202MB)",
    "age(jobs=4); drop_caches; zonesort",
    "job(402MB)",
    "job(502MB)",
    "io(302MB); job(402MB)",
    "hold(0.1%); age(jobs=2); drop_caches; compact",
)

_HOLE_UNIT = 4 << 20  # bytes: the largest block, so that each lies in the hole or beside it
_SIZES = (6, 7, 8, 9, 10)  # of caches that a share is the mean over, in eighths of the one sorted for
_RUN = "run"
_BETWEEN = "drop_caches; compact; zonesort"  # between histories, so that each begins with whole lists


@dataclass(frozen=True)
class Compared:
    """One step of one history."""

    history: str
    step: str
    guest_share: float
    model_share: float
    random_share: float
    guest_blocks: BlocksByOrder = field(repr=False)
    model_blocks: BlocksByOrder = field(repr=False)

    @property
    def shares_agree(self) -> bool:
        """Whether guest and model agree within the tolerance."""
        return abs(self.guest_share - self.model_share) <= TOLERANCE

    @property
    def random_agrees(self) -> bool:
        """Whether independent random frames would have agreed as well."""
        return abs(self.guest_share - self.random_share) <= TOLERANCE

    @property
    def shapes_agree(self) -> bool:
        """Whether the free blocks have the same sizes."""
        return shape_distance(self.guest_blocks, self.model_blocks) <= SHAPE_TOLERANCE


@dataclass(frozen=True)
class Validation:
    """What is compared, and where."""

    machine: Machine
    kernel: Kernel
    memory_bytes: int
    cache_bytes: int
    run_bytes: int
    histories: Sequence[str] = DEFAULT_HISTORIES
    seed: int = 1
    hole_bytes: int = 0  # of addresses in the middle of the memory that belong to no memory

    def __post_init__(self) -> None:
        if self.hole_bytes % _HOLE_UNIT or not 0 <= self.hole_bytes <= self.memory_bytes // 2:
            raise UsageError(
                f"--hole {self.hole_bytes >> 20}MiB: from 0MiB to {self.memory_bytes >> 21}MiB, half of the "
                "memory, in steps of 4 MiB"
            )

    @property
    def kernel_options(self) -> str:
        """The options of the guest's kernel. The model takes 4 KiB pages."""
        pages = "transparent_hugepage=never"
        if not self.hole_bytes:
            return pages
        begin = (self.memory_bytes - self.hole_bytes) // 2 // _HOLE_UNIT * _HOLE_UNIT
        return f"{pages} memmap={self.hole_bytes >> 20}M${begin >> 20}M"


def shape_distance(a: BlocksByOrder, b: BlocksByOrder) -> float:
    """Return the share of free memory that is in larger blocks on one side, at the worst order.

    This is Kolmogorov and Smirnov's distance between the distributions of free frames over block orders.
    """
    frames = 1 << np.arange(a.size)
    return float(np.abs(np.cumsum(a * frames) / (a @ frames) - np.cumsum(b * frames) / (b @ frames)).max())


def validate_model(setup: Validation, report: Callable[[Compared], None] = lambda _: None) -> list[Compared]:
    """Boot one guest and compare all histories in it, one after the other."""
    find_qemu()
    planner = Scheduler(setup.memory_bytes - setup.hole_bytes, setup.machine.ddr.size.value, setup.seed)
    schedules = [planner.read(text) for text in setup.histories]
    between = planner.read(_BETWEEN)
    if any(schedule.boot != between.boot for schedule in schedules):
        raise UsageError("--history: validate boots one guest for all histories; leave boot's arguments out")
    for schedule in schedules:
        for step in schedule.steps:
            if step.in_guest:
                raise UsageError(f"--history: '{step.text}' runs in guests only; validate has no such step")
    memory_side = MemorySide(setup.cache_bytes // 4096)
    run = run_work(setup.run_bytes).steps
    root = Initramfs()
    add_state_module(root, setup.kernel)
    for schedule in (*schedules, between, Schedule(between.boot, [], {_RUN: run})):
        schedule.add_to(root, setup.kernel)

    results: list[Compared] = []
    hardware = Hardware(setup.memory_bytes)
    options = setup.kernel_options
    with MeasuredGuest(setup.machine, memory_side, hardware, setup.kernel, root, options) as guest:
        node = GuestNode(guest)
        for schedule in schedules:
            schedule.prepare(guest)
        for text, schedule in zip(setup.histories, schedules, strict=True):
            for step in between.steps:
                step.act(node)
            for compared in _compare(text, schedule, node, take_picture(guest), memory_side, run, setup.seed):
                report(compared)
                results.append(compared)
    return results


def _compare(
    text: str,
    schedule: Schedule,
    guest: GuestNode,
    start: Picture,
    memory_side: MemorySide,
    run: Steps,
    seed: int,
) -> Iterator[Compared]:
    model = ModelNode(start.model(), memory_side.slots)
    random = np.random.default_rng(seed)
    nodes: tuple[AgedNode, ...] = (guest, model)
    for words, act in (("start", None), *((step.text, step.act) for step in schedule.steps)):
        for node in nodes:
            if act is not None:
                act(node)
        blocks = [node.free_blocks() for node in nodes]
        held = [node.work(_RUN, run) for node in nodes]
        # The alternative that the model has to beat: each page gets a random frame, whatever came before.
        held.append(random.choice(start.usable_frames, held[1].size, replace=False))
        shares = [_share(memory_side, frames) for frames in held]
        yield Compared(text, words, shares[0], shares[1], shares[2], blocks[0], blocks[1])


def _share(memory_side: MemorySide, frames: Frames) -> float:
    """Return the share of frames that share a slot with another, averaged over caches of several sizes."""
    caches = [MemorySide(memory_side.slots * eighths // 8) for eighths in _SIZES]
    return sum(cache.conflicts(frames) for cache in caches) / len(caches) / frames.size


def failures(rows: Sequence[Compared]) -> list[str]:
    """Return a sentence for each disagreement, and one if independent random frames would agree as well."""
    found = [
        f"{row.history}, after {row.step}: guest {row.guest_share:.1%}, model {row.model_share:.1%}"
        for row in rows
        if not row.shares_agree
    ]
    found += [
        f"{row.history}, after {row.step}: free blocks of other sizes" for row in rows if not row.shapes_agree
    ]
    if rows and all(row.random_agrees for row in rows):
        found.append("independent random frames agree as well: these histories show nothing")
    return found
