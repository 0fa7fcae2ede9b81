"""Rules on what else uses memory.

A rule is a function that yields its findings. It yields nothing where the system does not say.
"""

from collections.abc import Iterator

from pagelens.audit.model import Audit, Finding, Severity
from pagelens.frames.policies.commands import PREPARE
from pagelens.units import format_binary_size, format_count, format_share

MANY_FAILS, FEWEST_STALLS = 0.5, 100  # of direct compactions
MUCH_CACHE = 0.2  # of memory


def page_cache(audit: Audit) -> Iterator[Finding]:
    """Report caches of the kernel that fill memory."""
    usage = audit.usage
    if usage.total and usage.droppable is not None and usage.droppable >= MUCH_CACHE * usage.total:
        share = usage.droppable / usage.total
        dirty = f" {format_binary_size(usage.dirty)} have to be written first (sync)." if usage.dirty else ""
        yield Finding(
            Severity.note if audit.cache is None else Severity.warning,
            "page-cache",
            f"{format_share(share)} of memory ({format_binary_size(usage.droppable)}) holds caches that "
            "could be dropped.",
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
                "Programs waited in vain and got small pages.",
                PREPARE,
                share,
            )
