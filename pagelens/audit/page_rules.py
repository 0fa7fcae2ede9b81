"""Rules on large pages: what they can be made of, who gets them, and what is set aside.

A rule is a function that yields its findings. It yields nothing where the system does not say.
"""

from collections.abc import Iterator

from pagelens.audit.fragmentation import LARGE_ORDER, free_frames, suitable_blocks
from pagelens.audit.model import GIGANTIC, LARGE, SMALL, Audit, Finding, HugePages, Severity
from pagelens.frames.policies.commands import PREPARE, at_boot
from pagelens.host.huge_page_pools import pool_folder
from pagelens.units import format_binary_size, format_count, format_share

BROKEN, VERY_BROKEN = 0.5, 0.95  # of free memory, in blocks too small for a 2 MiB page
WHOLE = 0.1
LITTLE_FREE = 0.05  # of memory: what is left then is in small pieces on any node
MANY_PINNED = 0.1  # of page blocks
MANY_FALLBACKS = 0.1  # of page faults that wanted a large page
MUCH_IN_POOL = 0.1  # of memory
_THP = "/sys/kernel/mm/transparent_hugepage"


def fragmentation(audit: Audit) -> Iterator[Finding]:
    """Report free memory in small pieces, or in large ones."""
    free = sum(free_frames(zone.free_blocks) for zone in audit.zones) * SMALL
    if not free:
        return
    large = sum(suitable_blocks(zone.free_blocks, LARGE_ORDER) for zone in audit.zones) * LARGE
    share = 1 - large / free
    seen = f"{format_share(share)} of the free memory is in pieces smaller than 2 MiB"
    pool = _pool(audit, LARGE)
    mended = "" if pool is None or pool.more_at_most is None else (
        f" After dropping the page cache and compacting there would be {pool.more_at_most:,} at most."
    )  # fmt: skip
    if share < WHOLE:
        yield Finding(
            Severity.good,
            "whole-memory",
            f"{format_share(1 - share)} of the free memory is in pieces of 2 MiB and more.",
            f"{large // LARGE:,} pages of 2 MiB are available now.",
            value=1 - share,
        )
    elif share >= BROKEN:
        little = audit.usage.total is not None and free < LITTLE_FREE * audit.usage.total
        severity = Severity.bad if share >= VERY_BROKEN else Severity.warning
        yield Finding(
            Severity.note if little else severity,
            "fragmented",
            f"{seen}.",
            f"Only {large // LARGE:,} pages of 2 MiB are available now. Programs that want more get small "
            f"ones.{mended}",
            PREPARE,
            share,
        )


def pinned_blocks(audit: Audit) -> Iterator[Finding]:
    """Report page blocks that compaction cannot empty."""
    known = [zone.pageblocks for zone in audit.zones if zone.pageblocks]
    blocks = sum(sum(of_zone.values()) for of_zone in known)
    pinned = sum(of_zone.get("Unmovable", 0) + of_zone.get("Reclaimable", 0) for of_zone in known)
    if blocks and pinned >= MANY_PINNED * blocks:
        yield Finding(
            Severity.note,
            "unmovable",
            f"{format_share(pinned / blocks)} of memory is in page blocks for what the kernel cannot move.",
            "Compaction makes no large pages there. Only a reboot surely gives them back.",
            at_boot(f"hugepagesz=2M hugepages={(audit.usage.total or 2 * LARGE) // (2 * LARGE)}"),
            pinned / blocks,
        )


def large_pages(audit: Audit) -> Iterator[Finding]:
    """Report who gets large pages, and how often that fails."""
    thp, pool = audit.kernel.thp, _pool(audit, LARGE)
    empty = pool is not None and pool.total == 0
    if thp.enabled == "never" and empty:
        yield Finding(
            Severity.warning,
            "no-large-pages",
            "Programs get no large pages, because transparent ones are off and none are set aside.",
            "Scattered accesses need page walks through four levels, and frames are given by 4 KiB.",
            (f"echo madvise > {_THP}/enabled",),
        )
    elif thp.enabled == "madvise" and empty:
        yield Finding(
            Severity.note,
            "large-pages-asked",
            "Programs get 2 MiB pages only where they ask for them (madvise).",
            "pagelens run can ask for them in a program's place, for all of its large blocks.",
            ("pagelens run --pages thp -- ./app",),
        )
    wanted = (thp.faults or 0) + (thp.fallbacks or 0)
    if wanted and (thp.fallbacks or 0) >= MANY_FALLBACKS * wanted:
        share = (thp.fallbacks or 0) / wanted
        yield Finding(
            Severity.warning,
            "large-page-fallbacks",
            f"{format_share(share)} of the page faults that wanted a 2 MiB page since boot got a small one.",
            f"Free memory was too fragmented for {format_count(thp.fallbacks or 0)} of them"
            + (", and defrag is off." if thp.defrag == "never" else "."),
            (*PREPARE, *((f"echo madvise > {_THP}/defrag",) if thp.defrag == "never" else ())),
            share,
        )


def unused_pool(audit: Audit) -> Iterator[Finding]:
    """Report huge pages that nobody uses."""
    for pool in audit.huge_pages:
        held = (pool.total or 0) * pool.page_size
        if (
            held
            and pool.free == pool.total
            and not pool.reserved
            and held >= MUCH_IN_POOL * (audit.usage.total or 0)
        ):
            yield Finding(
                Severity.note,
                "unused-pool",
                f"{format_binary_size(held)} are set aside as pages of {format_binary_size(pool.page_size)}, "
                "and nobody uses them.",
                "Only programs that ask for them can use them. All others have less memory.",
                (f"echo 0 > {pool_folder(pool.page_size)}/nr_hugepages",),
                held,
            )


def gigantic(audit: Audit) -> Iterator[Finding]:
    """Report that no pages of 1 GiB are available."""
    pool = _pool(audit, GIGANTIC)
    if pool is not None and not pool.total and pool.more_now == 0:
        known = pool.more_at_most is not None
        count = f"{pool.more_at_most} at most" if pool.more_at_most else "none"
        most = f" Moving pages would make {count}." if known else ""
        yield Finding(
            Severity.note,
            "no-gigantic-pages",
            "No page of 1 GiB is available now.",
            f"Pages of 1 GiB are only sure at boot.{most}",
            at_boot(f"hugepagesz=1G hugepages={(audit.usage.total or 2 * GIGANTIC) // (2 * GIGANTIC)}"),
        )


def _pool(audit: Audit, size: int) -> HugePages | None:
    return next((pool for pool in audit.huge_pages if pool.page_size == size), None)
