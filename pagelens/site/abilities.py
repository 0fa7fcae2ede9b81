"""Tells what the configuration means on a node: which steps can work, and what the others lack."""

import os
from collections.abc import Iterator

from pagelens.host.huge_page_pools import pool_sizes
from pagelens.host.system import System
from pagelens.site.config import SiteConfig
from pagelens.site.memory_steps import SORT, numa_numbers, side_cache_bytes
from pagelens.units import format_binary_size


def node_abilities(config: SiteConfig) -> Iterator[str]:
    """Yield one line for each part of the configuration."""
    system = System(config.node.root)
    wanted = config.prolog
    yield f"before a job, in at most {wanted.budget_s:g} s:"
    for wish, what, path in (
        (wanted.drop_caches, "drop caches", "/proc/sys/vm/drop_caches"),
        (wanted.compact, "compact", "/proc/sys/vm/compact_memory"),
    ):
        can = "yes" if (system.root / path.lstrip("/")).exists() else f"no: {path} is missing"
        yield f"  {what}: {can if wish else 'off'}"
    yield f"  sort: {_sort(config, system)}"
    sizes = " and ".join(format_binary_size(size) for size in pool_sizes(system)) or "none"
    yield f"  pools for jobs that ask: {sizes}, {100 * wanted.pool_share:.0f}% of the available memory"
    yield f"after a job, in at most {config.epilog.budget_s:g} s: pools and intervals are put back"
    for name, folder in (("state", config.node.state), ("spool", config.node.spool)):
        yield f"{name}: {folder}, {_writable(folder)}"


def _sort(config: SiteConfig, system: System) -> str:
    if config.prolog.sort == "off":
        return "off"
    nodes = ", ".join(numa_numbers(system))
    if system.names(SORT):
        return f"yes, NUMA node {nodes}"
    cache = config.prolog.cache or side_cache_bytes(system)
    if cache is None:
        return "no: no module zonesort_module is loaded, and no memory-side cache is known of"
    return (
        f"by the module, if modprobe finds zonesort_module; else only pools, for {format_binary_size(cache)}"
    )


def _writable(folder: os.PathLike[str]) -> str:
    path = os.path.abspath(folder)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return "writable" if os.access(path, os.W_OK) else f"not writable: {path} is not for this user"
