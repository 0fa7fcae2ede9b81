"""Rules on memory tiers, and on what else uses memory or moves pages.

A rule is a function that yields its findings. It yields nothing where the system does not say.
"""

import shlex
from collections.abc import Iterator

from pagelens.audit.model import Audit, Finding, Severity
from pagelens.frames.policies.commands import PREPARE
from pagelens.units import format_binary_size, format_count, format_rate, format_share

MANY_FAILS, FEWEST_STALLS = 0.5, 100  # of direct compactions
MUCH_CACHE = 0.2  # of memory
ONE_SIDED = 0.9  # of a file's cached pages, on one node: assumed


def tiers(audit: Audit) -> Iterator[Finding]:
    """Report memory without processors."""
    local = [node for node in audit.nodes if node.processors]
    for node in audit.nodes:
        if node.processors != 0 or node.size is None or not local:
            continue
        near = max(local, key=lambda other: other.bandwidth or 0)
        seen = (
            f"NUMA node {node.number} has {format_binary_size(node.size)} and no processors. Its memory is "
        )
        if node.faster:
            yield Finding(
                Severity.note,
                "fast-tier",
                f"{seen}the faster one.",
                "Programs get it only where they, or numactl, ask for it.",
                (f"numactl --preferred={node.number} ./app",),
            )
        elif node.bandwidth and near.bandwidth and node.bandwidth < near.bandwidth:
            numbers = ",".join(str(other.number) for other in local)
            yield Finding(
                Severity.warning,
                "slow-tier",
                f"{seen}{near.bandwidth / node.bandwidth:.1f} times slower than that of node {near.number}.",
                f"A job that outgrows its own node goes on there at {format_rate(node.bandwidth)} instead of "
                f"{format_rate(near.bandwidth)}. If it is bound to its node, it fails instead.",
                (f"numactl --membind={numbers} ./app",),
                near.bandwidth / node.bandwidth,
            )


def files(audit: Audit) -> Iterator[Finding]:
    """Report files that the page cache holds on one NUMA node, while other nodes have processors, too."""
    with_processors = [node for node in audit.nodes if node.processors]
    if len(with_processors) < 2:
        return
    for file in audit.files:
        placed = sum(file.by_node.values())
        if not placed:
            continue
        number, most = max(file.by_node.items(), key=lambda pair: pair[1])
        if most > ONE_SIDED * placed:
            name, share = shlex.quote(file.path), most / placed
            yield Finding(
                Severity.note,
                "file-on-one-node",
                f"{format_share(share)} of the cached pages of {file.path} lie on NUMA node {number}.",
                "Threads on other nodes read them from there. Cached pages stay where their first reader "
                "was until they leave the cache.",
                (
                    f"dd if={name} iflag=nocache count=0",
                    f"numactl --interleave=all cat {name} >/dev/null",
                ),
                share,
            )


def balancing(audit: Audit) -> Iterator[Finding]:
    """Report NUMA balancing, which moves pages to the processors that use them."""
    kernel = audit.kernel
    if kernel.numa_balancing and len(audit.nodes) > 1:
        moved = f"; {format_count(kernel.numa_migrated)} pages since boot" if kernel.numa_migrated else ""
        yield Finding(
            Severity.warning if audit.cache is not None else Severity.note,
            "numa-balancing",
            f"NUMA balancing moves pages while jobs run{moved}.",
            "It causes page faults to find out who uses a page, and undoes a choice of frames.",
            ("echo 0 > /proc/sys/kernel/numa_balancing",),
        )


def page_cache(audit: Audit) -> Iterator[Finding]:
    """Report files that fill memory."""
    usage = audit.usage
    if usage.total and usage.droppable is not None and usage.droppable >= MUCH_CACHE * usage.total:
        share = usage.droppable / usage.total
        dirty = f" {format_binary_size(usage.dirty)} have to be written first (sync)." if usage.dirty else ""
        yield Finding(
            Severity.note if audit.cache is None else Severity.warning,
            "page-cache",
            f"{format_share(share)} of memory ({format_binary_size(usage.droppable)}) holds files that could "
            "be dropped.",
            "These pages are scattered and keep free blocks small, so sorting and large pages gain "
            f"less.{dirty}",
            PREPARE,
            share,
        )


def swap(audit: Audit) -> Iterator[Finding]:
    """Report pages that are swapped out."""
    if audit.kernel.swap_used:
        yield Finding(
            Severity.warning,
            "swap",
            f"{format_binary_size(audit.kernel.swap_used)} of swap are in use.",
            "These pages come back one by one, on whatever frames are free at that time.",
            ("swapoff -a && swapon -a",),
            audit.kernel.swap_used,
        )


def overcommit(audit: Audit) -> Iterator[Finding]:
    """Report strict limits on what programs may map."""
    kernel = audit.kernel
    if kernel.overcommit == 2 and kernel.commit_limit is not None and kernel.committed is not None:
        left = max(0, kernel.commit_limit - kernel.committed)
        if audit.usage.available is not None and left < audit.usage.available:
            yield Finding(
                Severity.note,
                "strict-overcommit",
                f"Of {format_binary_size(audit.usage.available)} available, programs may map only "
                f"{format_binary_size(left)} more (overcommit_memory is 2).",
                "The kernel refuses programs that map more than they use, and choosing among spare frames.",
                ("echo 0 > /proc/sys/vm/overcommit_memory",),
            )


def compaction(audit: Audit) -> Iterator[Finding]:
    """Report compactions that fail."""
    counts = audit.kernel.compaction
    if counts.stalls and counts.fails is not None and counts.stalls >= FEWEST_STALLS:
        share = counts.fails / counts.stalls
        if share >= MANY_FAILS:
            yield Finding(
                Severity.warning,
                "compaction-fails",
                f"{format_share(share)} of {format_count(counts.stalls)} compactions that a program waited "
                "for failed.",
                "The program waited for nothing and got small pages.",
                PREPARE,
                share,
            )
