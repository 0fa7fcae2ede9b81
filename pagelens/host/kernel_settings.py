"""Reads the kernel's settings and counters that influence which frames a job gets."""

import re
from dataclasses import dataclass

from pagelens.address.units import FRAME_BYTES
from pagelens.host.frame_map import may_read_flags
from pagelens.host.own_pages import frames_visible
from pagelens.host.proc_files import chosen, counters, sizes
from pagelens.host.system import System

_THP = "/sys/kernel/mm/transparent_hugepage"
_SORT = "/sys/kernel/zone_sort_free_pages"
_MODULE = "/sys/module/zonesort_module/parameters"
_FLAGS = {"Y": True, "1": True, "true": True, "N": False, "0": False, "false": False}


@dataclass(frozen=True)
class TransparentHugePages:
    """The state of /sys/kernel/mm/transparent_hugepage."""

    enabled: str | None
    defrag: str | None
    shmem: str | None
    khugepaged: bool | None  # whether it looks for pages to put together
    max_ptes_none: int | None
    faults: int | None  # page faults since boot that got a large page
    fallbacks: int | None  # faults that got none


@dataclass(frozen=True)
class Zonesort:
    """The zonesort module, which is ours or Intel's of 2017."""

    loaded: bool | None
    kind: str | None  # "pagelens" or "intel"
    interval_s: int | None  # 0: on demand
    sorts: int | None
    last_node: int | None
    last_ns: int | None
    blocks_stuck: int | None


@dataclass(frozen=True)
class Compaction:
    """Settings of compaction, and its counts since boot."""

    proactiveness: int | None
    stalls: int | None  # direct compactions
    fails: int | None
    allocation_stalls: int | None  # direct reclaims


@dataclass(frozen=True)
class KernelSettings:
    """The settings that influence which frames a job gets."""

    version: str | None
    uptime_s: float | None
    turnover: float | None  # how many times over memory has been handed out since boot
    shuffle: bool | None
    numa_fake: str | None  # its value on the kernel's command line; empty if it is not there
    numa_balancing: int | None
    numa_migrated: int | None  # pages, since boot
    demotion: bool | None  # whether pages that are hardly used move to slower nodes
    overcommit: int | None
    commit_limit: int | None
    committed: int | None
    swap: int | None
    swap_used: int | None
    thp: TransparentHugePages
    zonesort: Zonesort
    compaction: Compaction


@dataclass(frozen=True)
class Usage:
    """The use of all memory, in bytes."""

    total: int | None
    free: int | None
    available: int | None
    page_cache: int | None
    droppable: int | None  # what drop_caches would give at most: clean pages that are not mapped, and slabs
    dirty: int | None
    anonymous: int | None


@dataclass(frozen=True)
class Rights:
    """What this user may see of frames. The values are None for a captured tree."""

    frames: bool | None  # their numbers, in pagemap
    flags: bool | None  # whether frames are free, in kpageflags


def read_usage(system: System) -> Usage:
    """Return what memory is used for."""
    known = sizes(system)
    cache = droppable = None
    if "Cached" in known:
        cache = max(0, known["Cached"] - known.get("Shmem", 0)) + known.get("Buffers", 0)
        kept = sum(known.get(name, 0) for name in ("Mapped", "Dirty", "Writeback"))
        droppable = max(0, cache - kept) + known.get("SReclaimable", 0)
    return Usage(
        total=known.get("MemTotal"),
        free=known.get("MemFree"),
        available=known.get("MemAvailable"),
        page_cache=cache,
        droppable=droppable,
        dirty=known.get("Dirty"),
        anonymous=known.get("AnonPages"),
    )


def read_kernel(system: System) -> KernelSettings:
    """Return all settings. Those that the kernel does not have are None."""
    counts, known = counters(system, "/proc/vmstat"), sizes(system)
    command_line = system.text("/proc/cmdline")
    fake = re.search(r"(?:^|\s)numa=fake=(\S{1,32})", command_line)
    uptime = re.match(r"(\d{1,12}\.\d{1,4})\b", system.text("/proc/uptime"))
    swap = known.get("SwapTotal")
    return KernelSettings(
        version=next(iter(re.findall(r"^[\w.+~-]{1,80}$", system.text("/proc/sys/kernel/osrelease"))), None),
        uptime_s=float(uptime[1]) if uptime else None,
        turnover=_turnover(counts, known.get("MemTotal")),
        shuffle=_FLAGS.get(system.text("/sys/module/page_alloc/parameters/shuffle")),
        numa_fake=fake[1] if fake else "" if command_line else None,
        numa_balancing=system.number("/proc/sys/kernel/numa_balancing"),
        numa_migrated=counts.get("numa_pages_migrated"),
        demotion=_FLAGS.get(system.text("/sys/kernel/mm/numa/demotion_enabled")),
        overcommit=system.number("/proc/sys/vm/overcommit_memory"),
        commit_limit=known.get("CommitLimit"),
        committed=known.get("Committed_AS"),
        swap=swap,
        swap_used=None if swap is None else max(0, swap - known.get("SwapFree", swap)),
        thp=_transparent_huge_pages(system, counts),
        zonesort=_zonesort(system),
        compaction=Compaction(
            proactiveness=system.number("/proc/sys/vm/compaction_proactiveness"),
            stalls=counts.get("compact_stall"),
            fails=counts.get("compact_fail"),
            allocation_stalls=_sum(counts, "allocstall"),
        ),
    )


def read_rights(system: System) -> Rights:
    """Return the rights of this user on this system. A captured tree says nothing of them."""
    if system.captured:
        return Rights(None, None)
    return Rights(frames_visible(), may_read_flags(system))


def _turnover(counts: dict[str, int], total: int | None) -> float | None:
    frames = _sum(counts, "pgalloc")
    return frames * FRAME_BYTES / total if frames is not None and total else None


def _sum(counts: dict[str, int], prefix: str) -> int | None:
    """Return the sum over the zones, or the one counter of kernels before 4.10."""
    found = [count for name, count in counts.items() if name == prefix or name.startswith(f"{prefix}_")]
    return sum(found) if found else None


def _transparent_huge_pages(system: System, counts: dict[str, int]) -> TransparentHugePages:
    return TransparentHugePages(
        enabled=chosen(system.text(f"{_THP}/enabled")),
        defrag=chosen(system.text(f"{_THP}/defrag")),
        shmem=chosen(system.text(f"{_THP}/shmem_enabled")),
        khugepaged=_FLAGS.get(system.text(f"{_THP}/khugepaged/defrag")),
        max_ptes_none=system.number(f"{_THP}/khugepaged/max_ptes_none"),
        faults=counts.get("thp_fault_alloc"),
        fallbacks=counts.get("thp_fault_fallback"),
    )


def _zonesort(system: System) -> Zonesort:
    """Return the state of the module.

    Ours has parameters that Intel's lacks, and debugfs has its statistics.
    """
    loaded = bool(system.names(_SORT)) if system.names("/sys/kernel") else None
    interval = re.fullmatch(r"(\d{1,12}) sec", system.text(f"{_SORT}/sort_interval"))
    last = counters(system, "/sys/kernel/debug/zonesort/stats")
    sorts = last.get("sorts")
    return Zonesort(
        loaded=loaded,
        kind=("pagelens" if "evacuate" in system.names(_MODULE) else "intel") if loaded else None,
        interval_s=int(interval[1]) if interval else None,
        sorts=sorts,
        last_node=last.get("last_node") if sorts else None,
        last_ns=last.get("last_ns") if sorts else None,
        blocks_stuck=last.get("blocks_stuck"),
    )
