"""The kernel's settings and counters that have a say in which frames a job gets."""

import re

from pagelens.audit.frame_map import may_read_flags
from pagelens.audit.model import SMALL, Compaction, Kernel, Rights, TransparentHugePages, Usage, Zonesort
from pagelens.audit.own_pages import frames_visible
from pagelens.host.proc_files import chosen, counters, sizes
from pagelens.machine.detect import System

_THP = "/sys/kernel/mm/transparent_hugepage"
_SORT = "/sys/kernel/zone_sort_free_pages"
_MODULE = "/sys/module/zonesort_module/parameters"
_FLAGS = {"Y": True, "1": True, "N": False, "0": False}


def read_usage(system: System) -> Usage:
    """What memory is used for."""
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


def read_kernel(system: System) -> Kernel:
    """All of it; what a kernel does not have is None."""
    counts, known = counters(system, "/proc/vmstat"), sizes(system)
    command_line = system.text("/proc/cmdline")
    fake = re.search(r"(?:^|\s)numa=fake=(\S{1,32})", command_line)
    uptime = re.match(r"(\d{1,12}\.\d{1,4})\b", system.text("/proc/uptime"))
    swap = known.get("SwapTotal")
    return Kernel(
        version=next(iter(re.findall(r"^[\w.+~-]{1,80}$", system.text("/proc/sys/kernel/osrelease"))), None),
        uptime_s=float(uptime[1]) if uptime else None,
        turnover=_turnover(counts, known.get("MemTotal")),
        shuffle=_FLAGS.get(system.text("/sys/module/page_alloc/parameters/shuffle")),
        numa_fake=fake[1] if fake else "" if command_line else None,
        numa_balancing=system.number("/proc/sys/kernel/numa_balancing"),
        numa_migrated=counts.get("numa_pages_migrated"),
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
    """Of this user on this system; a captured tree says nothing of them."""
    if system.captured:
        return Rights(None, None)
    return Rights(frames_visible(), may_read_flags(system))


def _turnover(counts: dict[str, int], total: int | None) -> float | None:
    frames = _sum(counts, "pgalloc")
    return frames * SMALL / total if frames is not None and total else None


def _sum(counts: dict[str, int], prefix: str) -> int | None:
    """Over the zones, or of kernels before 4.10 the one counter."""
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
    """Ours has parameters that Intel's has not, and debugfs has its statistics."""
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
