"""The steps that prepare a node's free memory for a job. A step returns why it was left out, if it was."""

from __future__ import annotations

import os
import re
from functools import partial

from pagelens.host.huge_page_pools import pool_folder, read_pool
from pagelens.host.numa_nodes import read_nodes
from pagelens.host.system import System
from pagelens.site.budget import Budget
from pagelens.site.config import PrologSection
from pagelens.site.record import Record

SORT = "/sys/kernel/zone_sort_free_pages"  # our module's folder, and Intel's of 2017
_MODULE = "zonesort_module"
_MOST_OF_REST = 0.5  # of the time that is left, for a step that others follow: assumed


def tidy(system: System, budget: Budget, wanted: PrologSection, sorting: bool, record: Record) -> bool:
    """Drop caches, compact and sort, as far as that is wanted.

    Return whether free memory can be sorted.
    """
    if wanted.drop_caches:
        record.did("drop caches", drop_caches(system, budget))
    if wanted.compact:
        record.did("compact", compact(system, budget))
    can_sort = sorting and module_loaded(system, budget)
    if can_sort:
        record.did("sort", sort(system, budget))
    return can_sort


def drop_caches(system: System, budget: Budget) -> str:
    """Give the page cache back.

    What is not on the disk yet is written first, because it would stay otherwise.
    """

    def work() -> None:
        if not system.captured:
            os.sync()
        system.write("/proc/sys/vm/drop_caches", "3\n")

    return budget.attempt(work, _MOST_OF_REST)


def compact(system: System, budget: Budget) -> str:
    """Move pages together, so that large blocks come free."""
    return budget.attempt(lambda: system.write("/proc/sys/vm/compact_memory", "1\n"), _MOST_OF_REST)


def module_loaded(system: System, budget: Budget) -> bool:
    """Return whether free memory can be sorted. Load the module if this machine has it."""
    if not system.names(SORT) and not system.captured:
        budget.run(["modprobe", _MODULE], _MOST_OF_REST)
    return bool(system.names(SORT))


def sort(system: System, budget: Budget) -> str:
    """Sorts the free memory of every NUMA node."""
    return "; ".join(
        f"NUMA node {node}: {why}"
        for node in numa_numbers(system)
        if (why := budget.attempt(partial(system.write, f"{SORT}/nodeid", node)))
    )


def numa_numbers(system: System) -> list[str]:
    """Return the numbers of the NUMA nodes that have memory."""
    found = [re.search(r"node([0-9]+)$", node.path) for node in read_nodes(system)]
    return [match[1] for match in found if match] or ["0"]


def pool_target(system: System, page_bytes: int, share: float) -> int | None:
    """Return how many pages a pool gets for a job.

    It is what the pool has, and that share of the available memory.
    """
    match = re.search(r"MemAvailable:\s*([0-9]{1,15}) kB", system.text("/proc/meminfo"))
    pool = read_pool(system, page_bytes)
    if match is None or pool.total is None:
        return None
    return pool.total + int((int(match[1]) << 10) * share) // page_bytes


def pool_file(page_bytes: int) -> str:
    """Return the setting that states how many pages a pool has."""
    return f"{pool_folder(page_bytes)}/nr_hugepages"


def order_pool(system: System, budget: Budget, page_bytes: int, cache_bytes: int) -> str:
    """Order the pool's free pages as `pagelens fix hugepages` does, if no module sorts."""
    from pagelens.fix.hugepages import TOOL
    from pagelens.host.native_files import native_file

    tool = str(native_file(TOOL))
    for node in numa_numbers(system):
        if why := budget.run([tool, str(page_bytes), str(cache_bytes), node]):
            return f"NUMA node {node}: {why}"
    return ""


def side_cache_bytes(system: System) -> int | None:
    """Return the size of the direct-mapped cache in front of a NUMA node's memory.

    Return None if the firmware describes none.
    """
    found = [node.side_cache for node in read_nodes(system) if node.side_cache and node.side_cache_direct]
    return found[0] if found else None
