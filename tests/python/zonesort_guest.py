"""A guest with zonesort in it, for the tests of the module."""

import re
import struct
import subprocess
import sys
from functools import cache
from itertools import chain
from pathlib import Path

from zonesort_rule import LISTS, Zone

from pagelens.lab.guest import Guest
from pagelens.lab.kernels import find_kernel
from pagelens.lab.modules import build_module

ROOT = Path(__file__).parents[2]
INTERFACE = "/sys/kernel/zone_sort_free_pages"
PARAMETERS = "/sys/module/zonesort_module/parameters"
DMA_FRAMES = 4096  # zone DMA: the first 16 MiB
DEBUGFS = "/sys/kernel/debug/zonesort"
# What a kernel writes when something is wrong; a module from elsewhere taints it, which is no fault.
COMPLAINTS = (
    *("BUG", "WARNING", "Oops", "Call Trace", "list_add", "list_del", "Bad page", "PFNs busy", "INFO: task"),
    *("possible circular", "possible recursive", "possible irq", "inconsistent lock", "suspicious RCU"),
)


@cache
def guest_program(folder: Path) -> Path:
    program = folder / "guest"
    source = ROOT / "tests" / "zonesort" / "guest.c"
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
    subprocess.run(["gcc", "-O2", "-static", *warnings, "-o", program, source], check=True)
    return program


def zonesort_guest(
    kernel: str, folder: Path, memory: str, cpus: int = 2, nodes: int = 1, described_cache: int = 0
) -> Guest:
    """Boots with zonesort, the lab's picture of the allocator and the program `guest` in /lab.

    `kernel` is 6.1 or 6.12, Debian's, or that with `-debug` behind it: built here, and checking itself.
    """
    series, _, debug = kernel.partition("-")
    if debug:
        built = ROOT / "build" / "debug-kernel"
        subprocess.run([sys.executable, ROOT / "scripts" / "debug_kernel.py", series, built], check=True)
        found = find_kernel(str(built / series / "bzImage"))
        modules = [built / series / name for name in ("zonesort_module.ko", "pagelens_state.ko")]
    else:
        found = find_kernel(kernel)
        modules = [build_module(ROOT / name, found) for name in ("zonesort", "tracer/guest/state")]
    files = {f"/lab/{file.name}": file for file in (*modules, guest_program(folder))}
    return Guest(found, memory, files, cpus=cpus, nodes=nodes, described_cache=described_cache)


def shell(guest: Guest, script: str) -> str:
    return guest.shell(script).checked().strip()


def statistics(guest: Guest) -> dict[str, int]:
    lines = shell(guest, f"cat {DEBUGFS}/stats").splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}


def conflict_share(guest: Guest, region_bytes: int, cache_bytes: int) -> float:
    """Returns the share of a fresh region's pages whose slot holds another of them."""
    pages, conflicts = map(int, shell(guest, f"/lab/guest share {region_bytes} {cache_bytes}").split())
    assert pages == region_bytes // 4096
    return conflicts / pages


def largest_blocks(guest: Guest) -> int:
    """Free blocks of order 10."""
    return sum(int(line.split()[-1]) for line in shell(guest, "cat /proc/buddyinfo").splitlines())


def clear_messages(guest: Guest) -> None:
    """Clears the messages of the boot, which are not about the module."""
    shell(guest, "dmesg -c > /dev/null")


def complaints(guest: Guest) -> list[str]:
    return [line for line in shell(guest, "dmesg").splitlines() if any(word in line for word in COMPLAINTS)]


def free_lists(guest: Guest) -> tuple[list[int], list[int]]:
    """Free blocks of each zone and order: as the allocator counts them, and as walking its lists does."""
    counted, walked = shell(guest, "cat /proc/buddyinfo; echo =; cat /proc/pagetypeinfo").split("=")
    blocks = {tuple(line.split()[:4]): [*map(int, line.split()[4:])] for line in counted.splitlines()}
    found = {zone: [0] * len(of_orders) for zone, of_orders in blocks.items()}
    for line in walked.splitlines():
        match = re.fullmatch(r"Node +(\d+), zone +(\w+), type +\w+ +([\d ]+)", line)
        if match and len(numbers := match[3].split()) == 11:
            zone = ("Node", f"{match[1]},", "zone", match[2])
            found[zone] = [a + int(b) for a, b in zip(found[zone], numbers, strict=True)]
    return [*chain(*blocks.values())], [*chain(*found.values())]


def lists_after_sort(guest: Guest) -> tuple[set[int], list[Zone]]:
    """Sorts and takes the lab's picture of the allocator at once: allocated frames, then zones DMA32 and DMA.

    For a guest with one node and less than 3 GiB. Lists that are not sorted (atomic reserve) are left out.
    """
    shell(guest, f"echo 0 > {INTERFACE}/nodeid; echo 0 > /proc/pagelens_state")
    zones: list[dict[tuple[int, int], list[int]]] = [{}, {}]
    allocated = set(range(1, guest.memory_bytes // 4096))
    for (word,) in struct.iter_unpack("<Q", guest.get("/proc/pagelens_state")):
        what, order, kind, frames, frame = (
            word >> at & (1 << bits) - 1 for at, bits in ((60, 4), (52, 8), (44, 8), (32, 12), (0, 32))
        )
        if what == 1:
            if (order, kind) in LISTS:
                zones[frame < DMA_FRAMES].setdefault((order, kind), []).append(frame)
            allocated.difference_update(range(frame, frame + (1 << order)))
        elif what == 5:  # no memory
            allocated.difference_update(range(frame, frame + frames))
    return allocated, list(zones)
