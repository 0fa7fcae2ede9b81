"""Shell commands that several remedies share."""

from collections.abc import Iterable

DROP_CACHES = "sync; echo 3 > /proc/sys/vm/drop_caches"
COMPACT = "echo 1 > /proc/sys/vm/compact_memory"
PREPARE = (DROP_CACHES, COMPACT)


def at_boot(options: str) -> tuple[str, ...]:
    """Return the commands that add `options` to the kernel's command line."""
    return (f"grubby --update-kernel=ALL --args='{options}'", "reboot")


def sort_nodes(numa_nodes: Iterable[int]) -> tuple[str, ...]:
    """Return the commands that have the zonesort module sort each of these NUMA nodes."""
    return tuple(f"echo {number} > /sys/kernel/zone_sort_free_pages/nodeid" for number in numa_nodes)
