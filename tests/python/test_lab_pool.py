"""The pool of 2 MiB pages: a real kernel hands out the pages that the model hands out, in its order."""

import itertools
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE
from run_library import build

from pagelens import _core
from pagelens.lab.allocator_state import add_state_module, take_picture
from pagelens.lab.emulator import Hardware
from pagelens.lab.guest_node import GuestNode
from pagelens.lab.history import Scheduler
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import find_kernel
from pagelens.lab.measured import MeasuredGuest, MemorySide
from pagelens.lab.memory_work import ALL_NUMAS
from pagelens.machine import load_machine

MIB = 1 << 20
# Touches so many pages of the pool in turn, and prints the frame of each, in 2 MiB.
TOUCHES = """
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int main(int words, char **word) {
        size_t pages = strtoul(word[1], 0, 10), size = 2u << 20;
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
        char *at = mmap(0, pages * size, PROT_READ | PROT_WRITE, flags, -1, 0);
        int map = open("/proc/self/pagemap", O_RDONLY);
        if (at == MAP_FAILED || map < 0) return 1;
        for (size_t page = 0; page < pages; ++page) {
            uint64_t entry;
            at[page * size] = 1;
            if (pread(map, &entry, 8, (uintptr_t)(at + page * size) / 4096 * 8) != 8) return 2;
            printf("%llu\\n", (unsigned long long)(entry & ((1ull << 55) - 1)) / 512);
        }
        return 0;
    }
"""


@pytest.mark.long
def test_the_pool_hands_out_what_the_model_hands_out_page_by_page(tmp_path: Path) -> None:
    """The kernel's pool is a stack. A program that ends leaves its pages on top, the last one uppermost."""
    source = tmp_path / "touches.c"
    source.write_text(TOUCHES)
    kernel, root = find_kernel("6.1"), Initramfs()
    add_state_module(root, kernel)
    root.add_program("/app/touches", build(source, tmp_path / "touches", "-static"))
    history = Scheduler(1 << 30, 96 << 30, 1).read("job(402MB)")
    history.add_to(root, kernel)
    machine, side = load_machine(CACHE_MODE), MemorySide(128 * 256)
    with MeasuredGuest(machine, side, Hardware(1 << 30), kernel, root, "transparent_hugepage=never") as guest:
        history.prepare(guest)
        node = GuestNode(guest)
        for step in history.steps:
            step.act(node)
        model = take_picture(guest).model()
        node.hugetlb(16 * 2 * MIB)
        first, then = (guest.run("/app/touches", str(pages)).checked().split() for pages in (12, 16))
    movable = _core.MigrateType.movable
    pages = (model.alloc(0, 9, movable, ALL_NUMAS, 16, _core.Mark.low)[::-1] // 512).tolist()
    assert any(abs(one - next_) > 1 for one, next_ in itertools.pairwise(pages))  # the node is aged
    assert [int(page) for page in first] == pages[:12]
    assert [int(page) for page in then] == [*pages[:12][::-1], *pages[12:]]
