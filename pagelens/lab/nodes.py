"""Nodes with a history: a guest, the allocator's model that does the same steps, and random frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_FRAMES
from pagelens.errors import Failure, UsageError
from pagelens.host.native_files import native_file
from pagelens.lab.allocator_state import ORDERS, take_picture
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import Kernel
from pagelens.lab.measured import TOOL, Frames, MeasuredGuest
from pagelens.lab.memory_work import ALL_NUMAS, ModelProcess, Steps, followed
from pagelens.lab.modules import build_module
from pagelens.lab.zonesort_sources import zonesort_sources

# Paths in the guest: our module, and one that sorts by Intel's rule (tracer/guest/buckets).
_ZONESORT, _ZONESORT_FOLDER = "/lab/zonesort_module.ko", "/sys/kernel/zone_sort_free_pages"
_BUCKETS, _BUCKETS_FILE = "/lab/pagelens_buckets.ko", "/proc/pagelens_buckets"

_HUGE_ORDER = 9
_PAGEVEC = 15  # pages that invalidate_mapping_pages() frees together (PAGEVEC_SIZE of Linux 6.1)
_NODES = "/sys/devices/system/node"
_MEMORY_BLOCKS = "/sys/devices/system/memory"
_PAGEMAP_PRESENT, _PAGEMAP_FRAME = np.uint64(1 << 63), np.uint64((1 << 55) - 1)  # Linux: pagemap.rst

BlocksByOrder = NDArray[np.int64]


def add_sort_module(root: Initramfs, kernel: Kernel, rule: str) -> None:
    """Put the module that sorts by a rule into a guest's root.

    Raises UsageError for a rule that no module has.
    """
    if rule == "ours":
        root.add(_ZONESORT, build_module(zonesort_sources(), kernel))
    elif rule == "intel":
        root.add(_BUCKETS, build_module(native_file("buckets"), kernel))
    else:
        raise UsageError(f"--history: zonesort({rule}) is the model's alone; guests sort as ours or intel")


def work_file(name: str) -> str:
    """Return where the root of a guest keeps the steps of that name."""
    return f"/lab/work/{name}"


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

    def hugetlb(self, size_bytes: int) -> None:
        """Set aside a pool of 2 MiB pages."""

    def offline(self, size_bytes: int) -> None:
        """Take memory blocks offline, the highest first, as many as possible."""

    def online(self) -> None:
        """Bring all memory back online."""

    def free_blocks(self) -> BlocksByOrder:
        """Return the free blocks of each order."""


@dataclass
class GuestNode:
    """A guest as a node. Its root has the steps of all work under `work_file`, as the plan prepared it."""

    guest: MeasuredGuest

    def work(self, name: str, steps: Steps) -> Frames:
        """Let /bin/lab do the work, from the file of that name."""
        self.guest.handed_over()
        done = self.guest.run(TOOL, "work", work_file(name))
        if done.status != 0:
            raise Failure(f"{name}: work in the guest ended with status {done.status}: {done.output.strip()}")
        words = np.frombuffer(self.guest.handed_over(), dtype=np.uint64)
        held = words[words & _PAGEMAP_PRESENT != 0] & _PAGEMAP_FRAME
        return np.sort(held.astype(np.int64))

    def hold(self, name: str, steps: Steps) -> None:
        """Let a process of /bin/lab do the work and stay."""
        self.guest.run(TOOL, "hold", work_file(name)).checked()

    def drop_caches(self) -> None:
        """Drop everything that can go, slabs included."""
        self.guest.shell("echo 3 > /proc/sys/vm/drop_caches").checked()

    def compact(self) -> None:
        """Compact through compact_memory."""
        self.guest.shell("echo 1 > /proc/sys/vm/compact_memory").checked()

    def zonesort(self, rule: str, evacuate: bool) -> None:
        """Sort with the module of the rule. Our rule sorts node by node."""
        nodes, slots = self.guest.hardware.nodes, self.guest.memory_side.slots
        if rule == "intel":
            self._load(_BUCKETS, _BUCKETS_FILE)
            self.guest.shell(f"echo {slots} > {_BUCKETS_FILE}").checked()
            return
        self._load(
            _ZONESORT, _ZONESORT_FOLDER, f"cache_bytes={slots * FRAME_BYTES * nodes}", f"slices={nodes}"
        )
        switch = "Y" if evacuate else "N"
        self.guest.shell(f"echo {switch} > /sys/module/zonesort_module/parameters/evacuate").checked()
        # These are the nodes of the kernel, of which numa=fake makes more than there are caches.
        for name in self.guest.shell(f"ls -d {_NODES}/node[0-9]*").checked().split():
            node = name.rpartition("node")[2]
            self.guest.shell(f"echo {node} > {_ZONESORT_FOLDER}/nodeid").checked()

    def _load(self, module: str, shows: str, *options: str) -> None:
        if self.guest.run("test", "-e", shows).status == 0:
            return
        done = self.guest.run("insmod", module, *options)
        if done.status != 0:
            name = Path(module).stem
            raise Failure(f"{name} does not load on Linux {self.guest.release}: {done.output.strip()}")

    def hugetlb(self, size_bytes: int) -> None:
        """Set aside the pool through nr_hugepages. Raises Failure if memory is too fragmented."""
        pages = -(-size_bytes // (HUGE_PAGE_FRAMES * FRAME_BYTES))
        name = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
        got = int(self.guest.shell(f"echo {pages} > {name}; cat {name}").checked())
        if got < pages:
            raise Failure(f"the guest's pool got {got} pages of 2 MiB, not {pages}: memory is too fragmented")

    def offline(self, size_bytes: int) -> None:
        """Take blocks offline one by one through their state files. A block that cannot go stays."""
        size = int(self.guest.shell(f"cat {_MEMORY_BLOCKS}/block_size_bytes").checked(), 16)
        blocks = self.guest.shell(f"ls -d {_MEMORY_BLOCKS}/memory[0-9]*").checked().split()
        for block in sorted(blocks, key=lambda name: -int(name.rpartition("memory")[2])):
            if size_bytes > 0 and self.guest.shell(f"echo offline > {block}/state").status == 0:
                size_bytes -= size

    def online(self) -> None:
        """Bring all blocks online, in order of address."""
        self.guest.shell(
            f"for block in $(ls -d {_MEMORY_BLOCKS}/memory[0-9]* | sort -V); do "
            "grep -q offline $block/state && echo online_movable > $block/state; done; true"
        ).checked()

    def free_blocks(self) -> BlocksByOrder:
        """Return the free blocks as the module counts them."""
        return take_picture(self.guest).blocks_by_order


@dataclass
class ModelNode:
    """A model of the allocator as a node."""

    memory: _core.Memory
    slots: int
    page_cache: list[int] = field(default_factory=list)

    def work(self, name: str, steps: Steps) -> Frames:
        """Let a ModelProcess do the work. `name` is for messages."""
        process = ModelProcess(self.memory, self.page_cache)
        seen = process.do(steps)
        process.end()
        # The lab runs its next command as a process that does nothing, but that finds the CPU's lists empty
        # and fills them.
        ModelProcess(self.memory).end()
        return np.sort(seen)

    def hold(self, name: str, steps: Steps) -> None:
        """Let a process do the work that does not end."""
        ModelProcess(self.memory, self.page_cache).do(steps)
        ModelProcess(self.memory).end()  # as after work

    def drop_caches(self) -> None:
        """Let a shell free everything that work has read, in groups, each from its last page on."""
        pages = np.array(self.page_cache, dtype=np.uint32)
        with self._shell():
            for begin in range(0, pages.size, _PAGEVEC):
                self.memory.free(0, np.ascontiguousarray(pages[begin : begin + _PAGEVEC][::-1]), 0)
        self.page_cache.clear()

    def compact(self) -> None:
        """Let a shell compact, and follow the page cache's pages. The shell's end empties the CPU's lists."""
        with self._shell() as shell:
            self._follow(self.memory.compact(0), shell)

    def zonesort(self, rule: str, evacuate: bool) -> None:
        """Let a shell sort by the rule of docs/zonesort.md, by Intel's, or by address."""
        with self._shell() as shell:
            if rule == "ours":
                self._follow(self.memory.sort_for_cache(self.slots, evacuate, 0), shell)
            elif rule == "intel":
                self.memory.sort_by_buckets(self.slots)
            else:
                self.memory.sort_by_address()

    @contextmanager
    def _shell(self) -> Iterator[ModelProcess]:
        """Yield the shell process that does a step."""
        shell = ModelProcess(self.memory)
        yield shell
        shell.end()

    def run_on_huge_pages(self, parts: Sequence[int]) -> Frames:
        """Return the frames of a program that uses so many 4 KiB parts of each of its 2 MiB pages, and ends.

        The 2 MiB pages come from the allocator, after a compaction if it has too few. Raises Failure if that
        does not suffice.
        """
        huge = self._huge_pages(len(parts))
        if huge.size < len(parts):
            self.memory.drain()  # as a request for a large page does, before it compacts and while it does
            self._follow(self.memory.compact(0))
            self.memory.drain()
            huge = np.concatenate([huge, self._huge_pages(len(parts) - huge.size)])
        self.memory.free(0, huge, _HUGE_ORDER)
        if huge.size < len(parts):
            raise Failure(f"the model has {huge.size} pages of 2 MiB, not {len(parts)}: it is too fragmented")
        used = [first + np.arange(count) for first, count in zip(huge.tolist(), parts, strict=True)]
        return np.sort(np.concatenate(used, dtype=np.int64))

    def _huge_pages(self, most: int) -> NDArray[np.uint32]:
        mtype = _core.MigrateType.movable
        return self.memory.alloc(0, _HUGE_ORDER, mtype, ALL_NUMAS, most, _core.Mark.low)

    def hugetlb(self, size_bytes: int) -> None:
        """Raise an error: this step is not compared."""
        raise _not_compared("hugetlb")

    def offline(self, size_bytes: int) -> None:
        """Raise an error: this step is not compared."""
        raise _not_compared("offline")

    def online(self) -> None:
        """Raise an error: this step is not compared."""
        raise _not_compared("online")

    def free_blocks(self) -> BlocksByOrder:
        """Return the free blocks without those on per-cpu lists, as in the guest."""
        return np.bincount(self.memory.free_blocks()[:, 1], minlength=ORDERS).astype(np.int64)

    def _follow(self, moves: NDArray[np.uint32], *processes: ModelProcess) -> None:
        self.page_cache[:] = followed(self.page_cache, moves)
        for process in processes:
            process.follow(moves)


def _not_compared(step: str) -> UsageError:
    return UsageError(f"--history: {step} runs in guests only; validate has no such step")


@dataclass
class RandomNode:
    """The alternative that the model has to beat: each page gets a random frame, whatever came before."""

    frames: Frames  # all existing frames
    random: np.random.Generator
    blocks: BlocksByOrder  # as at the beginning

    def work(self, name: str, steps: Steps) -> Frames:
        """Return as many random frames as the work takes pages."""
        count = ModelProcess(_core.Memory(_core.bare_layout(int(self.frames.max()) + 1), 1)).do(steps).size
        return np.sort(self.random.choice(self.frames, count, replace=False))

    def hold(self, name: str, steps: Steps) -> None:
        """Change nothing."""

    def drop_caches(self) -> None:
        """Change nothing."""

    def compact(self) -> None:
        """Change nothing."""

    def zonesort(self, rule: str, evacuate: bool) -> None:
        """Change nothing."""

    def hugetlb(self, size_bytes: int) -> None:
        """Change nothing."""

    def offline(self, size_bytes: int) -> None:
        """Change nothing."""

    def online(self) -> None:
        """Change nothing."""

    def free_blocks(self) -> BlocksByOrder:
        """Return the free blocks of the beginning."""
        return self.blocks
