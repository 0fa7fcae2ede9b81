"""A guest as a node with a history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_FRAMES
from pagelens.errors import Failure, UsageError
from pagelens.host.huge_page_pools import pool_folder
from pagelens.host.native_files import native_file
from pagelens.lab.aged_node import BlocksByOrder
from pagelens.lab.allocator_state import take_picture
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import Kernel
from pagelens.lab.measured import TOOL, Frames, MeasuredGuest
from pagelens.lab.memory_work import Steps
from pagelens.lab.modules import build_module
from pagelens.lab.zonesort_sources import zonesort_sources

# Paths in the guest: our module, and one that sorts by Intel's rule (tracer/guest/buckets).
_ZONESORT, _ZONESORT_FOLDER = "/lab/zonesort_module.ko", "/sys/kernel/zone_sort_free_pages"
_BUCKETS, _BUCKETS_FILE = "/lab/pagelens_buckets.ko", "/proc/pagelens_buckets"

_NODES = "/sys/devices/system/node"
_MEMORY_BLOCKS = "/sys/devices/system/memory"
_PAGEMAP_PRESENT, _PAGEMAP_FRAME = np.uint64(1 << 63), np.uint64((1 << 55) - 1)  # Linux: pagemap.rst


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
        name = f"{pool_folder(HUGE_PAGE_FRAMES * FRAME_BYTES)}/nr_hugepages"
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
