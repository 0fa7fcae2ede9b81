"""Shell commands that several findings name."""

from collections.abc import Iterable

PREPARE = ("sync; echo 3 > /proc/sys/vm/drop_caches", "echo 1 > /proc/sys/vm/compact_memory")


def at_boot(options: str) -> tuple[str, ...]:
    """For the kernel's command line."""
    return (f"grubby --update-kernel=ALL --args='{options}'", "reboot")


def sort_nodes(nodes: Iterable[int]) -> tuple[str, ...]:
    """zonesort, asked for each of these."""
    return tuple(f"echo {node} > /sys/kernel/zone_sort_free_pages/nodeid" for node in nodes)
