"""What the readings mean for a job's placement, the most important first.

A rule is a function that yields a finding or none; what nothing says is no finding. Limits are this file's
choice, named at the top, with what they are read against.
"""

from collections.abc import Callable, Iterator

from pagelens.audit.fragmentation import LARGE_ORDER, free_frames, suitable_blocks
from pagelens.audit.model import GIGANTIC, LARGE, Audit, Finding, HugePages, Severity
from pagelens.units import format_binary_size, format_count, format_rate, format_share

ENOUGH_TURNOVER = 1.0  # memory handed out once over leaves the free lists in another order (docs/frames.md)
BROKEN, VERY_BROKEN = 0.5, 0.95  # of free memory, in blocks too small for a 2 MiB page
WHOLE = 0.1
LITTLE_FREE = 0.05  # of memory: what is left then is in small pieces on any node
MANY_PINNED = 0.1  # of page blocks
MANY_FALLBACKS = 0.1  # of page faults that wanted a large page
MANY_FAILS, FEWEST_STALLS = 0.5, 100  # of direct compactions
MUCH_CACHE = 0.2  # of memory
MUCH_IN_POOL = 0.1  # of memory
FILTER_SHARE = 0.01  # of lines that do not fit: between good and bad parts (docs/results/snoop-filter.md)
_SORT = "/sys/kernel/zone_sort_free_pages"
_THP = "/sys/kernel/mm/transparent_hugepage"
_PREPARE = ("sync; echo 3 > /proc/sys/vm/drop_caches", "echo 1 > /proc/sys/vm/compact_memory")

Rule = Callable[[Audit], Iterator[Finding]]


def find(audit: Audit) -> tuple[Finding, ...]:
    """All findings, by severity and then in the order of RULES."""
    found = [finding for rule in RULES for finding in rule(audit)]
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def _lists(audit: Audit) -> Iterator[Finding]:
    """The order of the free lists before a direct-mapped cache."""
    cache, kernel = audit.cache, audit.kernel
    if cache is None or cache.ways > 1:
        return
    size, share = format_binary_size(cache.size), cache.random_share
    why = (
        f"On frames in no order {format_share(share)} of the pages of a job as large as the cache ({size}) "
        "share their slot with another of its pages; after a sort none do."
    )
    sort = tuple(f"echo {node.number} > {_SORT}/nodeid" for node in audit.nodes if node.processors != 0)
    module = kernel.zonesort
    if module.loaded and module.interval_s:
        seen = f"zonesort sorts the free lists every {module.interval_s} s."
        yield Finding(Severity.good, "zonesort", seen, "A job's pages spread over the cache.")
        return
    if module.loaded:
        never = module.sorts == 0
        yield Finding(
            Severity.warning if never else Severity.note,
            "zonesort",
            "zonesort is loaded and has not sorted yet."
            if never
            else "zonesort is loaded and sorts on demand.",
            f"{why} It has to be asked before each job, in the prologue.",
            (*_PREPARE[:1], *sort),
        )
        return
    if kernel.numa_fake:
        return  # _numa_fake judges it
    remedy = (*_PREPARE, "modprobe zonesort_module", *sort)
    if kernel.shuffle:
        seen = "The kernel shuffles its free lists, and nothing sorts them."
        yield Finding(Severity.warning, "free-lists", seen, why, remedy, share)
    elif kernel.turnover is None or module.loaded is None:
        yield Finding(
            Severity.warning, "free-lists", "Nothing is known to sort the free lists.", why, remedy, share
        )
    elif kernel.turnover >= ENOUGH_TURNOVER:
        yield Finding(
            Severity.bad,
            "free-lists",
            f"Memory has been handed out {kernel.turnover:,.0f} times over since boot, and nothing sorts the "
            "free lists.",
            why,
            remedy,
            share,
        )
    else:
        yield Finding(
            Severity.note,
            "free-lists",
            "The free lists are nearly as they were at boot, and nothing will sort them.",
            f"{why} One large job is enough to bring them out of order.",
            remedy,
            share,
        )


def _numa_fake(audit: Audit) -> Iterator[Finding]:
    if not audit.kernel.numa_fake or audit.cache is None:
        return
    largest = max((node.size or 0 for node in audit.nodes), default=0)
    size = format_binary_size(audit.cache.size)
    if largest > audit.cache.size:
        count = -(-audit.cache.memory // audit.cache.size)
        yield Finding(
            Severity.warning,
            "numa-fake",
            f"numa=fake={audit.kernel.numa_fake} makes nodes of {format_binary_size(largest)}, larger than "
            f"the cache ({size}).",
            "A job bound to one of them can conflict with itself.",
            _at_boot(f"numa=fake={count}U"),
        )
    else:
        yield Finding(
            Severity.good,
            "numa-fake",
            f"numa=fake={audit.kernel.numa_fake} makes nodes no larger than the cache ({size}).",
            "A job bound to one of them has no conflicts: numactl --membind=N ./app.",
        )


def _intel_module(audit: Audit) -> Iterator[Finding]:
    if audit.kernel.zonesort.kind == "intel":
        yield Finding(
            Severity.note,
            "intel-zonesort",
            "The zonesort module is Intel's of 2017.",
            "It leaves per-cpu lists and broken blocks as they are and takes every cache for 16 GiB.",
            ("make -C zonesort install && rmmod zonesort_module && modprobe zonesort_module",),
        )


def _assumed_cache(audit: Audit) -> Iterator[Finding]:
    if audit.cache is not None and audit.cache.assumed:
        yield Finding(
            Severity.note,
            "cache-assumed",
            f"That there is a cache of {format_binary_size(audit.cache.size)} before memory is not read from "
            "the machine.",
            f"It is assumed: {audit.cache.assumed}. Correct here.toml where that is wrong.",
            ("pagelens machines detect -o here.toml", "pagelens audit --machine here.toml"),
        )


def _fragmentation(audit: Audit) -> Iterator[Finding]:
    free = sum(free_frames(zone.free_blocks) for zone in audit.zones) * 4096
    if not free:
        return
    large = sum(suitable_blocks(zone.free_blocks, LARGE_ORDER) for zone in audit.zones) * LARGE
    share = 1 - large / free
    seen = f"{format_share(share)} of the free memory is in pieces smaller than 2 MiB"
    pool = _pool(audit, LARGE)
    mended = "" if pool is None or pool.more_at_most is None else (
        f" Without page cache and compacted there would be {pool.more_at_most:,} at most."
    )  # fmt: skip
    if share < WHOLE:
        yield Finding(
            Severity.good,
            "whole-memory",
            f"{format_share(1 - share)} of the free memory is in pieces of 2 MiB and more.",
            f"{large // LARGE:,} pages of 2 MiB could be had now.",
            value=1 - share,
        )
    elif share >= BROKEN:
        little = audit.usage.total is not None and free < LITTLE_FREE * audit.usage.total
        severity = Severity.bad if share >= VERY_BROKEN else Severity.warning
        yield Finding(
            Severity.note if little else severity,
            "fragmented",
            f"{seen}.",
            f"Only {large // LARGE:,} pages of 2 MiB can be had now; beyond them programs get small ones."
            + mended,
            _PREPARE,
            share,
        )


def _pinned_blocks(audit: Audit) -> Iterator[Finding]:
    known = [zone.pageblocks for zone in audit.zones if zone.pageblocks]
    blocks = sum(sum(of_zone.values()) for of_zone in known)
    pinned = sum(of_zone.get("Unmovable", 0) + of_zone.get("Reclaimable", 0) for of_zone in known)
    if blocks and pinned >= MANY_PINNED * blocks:
        yield Finding(
            Severity.note,
            "unmovable",
            f"{format_share(pinned / blocks)} of memory is in page blocks for what the kernel cannot move.",
            "Compaction makes no large pages there; only a reboot gives them back for certain.",
            _at_boot(f"hugepagesz=2M hugepages={(audit.usage.total or 2 * LARGE) // (2 * LARGE)}"),
            pinned / blocks,
        )


def _large_pages(audit: Audit) -> Iterator[Finding]:
    thp, pool = audit.kernel.thp, _pool(audit, LARGE)
    empty = pool is not None and pool.total == 0
    if thp.enabled == "never" and empty:
        yield Finding(
            Severity.warning,
            "no-large-pages",
            "Programs get no large pages: transparent ones are off, and none are set aside.",
            "Every walk of a program with scattered accesses goes through four levels, and frames are chosen "
            "4 KiB by 4 KiB.",
            (f"echo madvise > {_THP}/enabled",),
        )
    elif thp.enabled == "madvise" and empty:
        yield Finding(
            Severity.note,
            "large-pages-asked",
            "Programs get 2 MiB pages only where they ask for them (madvise).",
            "glibc asks for all of malloc's memory where it is told to.",
            ("GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ./app",),
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
            (*_PREPARE, *((f"echo madvise > {_THP}/defrag",) if thp.defrag == "never" else ())),
            share,
        )


def _unused_pool(audit: Audit) -> Iterator[Finding]:
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
                "Only programs that ask for them can; all others have that much less.",
                (f"echo 0 > /sys/kernel/mm/hugepages/hugepages-{pool.page_size >> 10}kB/nr_hugepages",),
                held,
            )


def _gigantic(audit: Audit) -> Iterator[Finding]:
    pool = _pool(audit, GIGANTIC)
    if pool is not None and not pool.total and pool.more_now == 0:
        most = (
            ""
            if pool.more_at_most is None
            else f" {pool.more_at_most} at most could be made by moving pages."
        )
        yield Finding(
            Severity.note,
            "no-gigantic-pages",
            "No page of 1 GiB can be had as memory is now.",
            f"They are certain at boot only.{most}",
            _at_boot(f"hugepagesz=1G hugepages={(audit.usage.total or 2 * GIGANTIC) // (2 * GIGANTIC)}"),
        )


def _tiers(audit: Audit) -> Iterator[Finding]:
    local = [node for node in audit.nodes if node.processors]
    for node in audit.nodes:
        if node.processors != 0 or node.size is None or not local:
            continue
        near = max(local, key=lambda other: other.bandwidth or 0)
        seen = f"Node {node.number} has {format_binary_size(node.size)} and no processors; its memory is "
        if node.faster:
            yield Finding(
                Severity.note,
                "fast-tier",
                f"{seen}the faster one.",
                "Programs get it only where they, or numactl, ask for it.",
                (f"numactl --preferred={node.number} ./app",),
            )
        elif node.bandwidth and near.bandwidth:
            numbers = ",".join(str(other.number) for other in local)
            yield Finding(
                Severity.warning,
                "slow-tier",
                f"{seen}{near.bandwidth / node.bandwidth:.1f} times slower than node {near.number}'s.",
                f"A job that outgrows its own node goes on there at {format_rate(node.bandwidth)} instead of "
                f"{format_rate(near.bandwidth)}; bound, it is told so instead.",
                (f"numactl --membind={numbers} ./app",),
                near.bandwidth / node.bandwidth,
            )


def _balancing(audit: Audit) -> Iterator[Finding]:
    kernel = audit.kernel
    if kernel.numa_balancing and len(audit.nodes) > 1:
        moved = f"; {format_count(kernel.numa_migrated)} pages since boot" if kernel.numa_migrated else ""
        yield Finding(
            Severity.warning if audit.cache is not None else Severity.note,
            "numa-balancing",
            f"NUMA balancing moves pages while jobs run{moved}.",
            "It takes page faults to find out who uses them, and undoes a choice of frames.",
            ("echo 0 > /proc/sys/kernel/numa_balancing",),
        )


def _page_cache(audit: Audit) -> Iterator[Finding]:
    usage = audit.usage
    if usage.total and usage.droppable is not None and usage.droppable >= MUCH_CACHE * usage.total:
        share = usage.droppable / usage.total
        dirty = f" {format_binary_size(usage.dirty)} have to be written first (sync)." if usage.dirty else ""
        yield Finding(
            Severity.note if audit.cache is None else Severity.warning,
            "page-cache",
            f"{format_share(share)} of memory ({format_binary_size(usage.droppable)}) holds files that could "
            "be dropped.",
            "A job's frames lie around them, and scattered pages keep free blocks small: sorting and large "
            f"pages gain less.{dirty}",
            _PREPARE,
            share,
        )


def _swap(audit: Audit) -> Iterator[Finding]:
    if audit.kernel.swap_used:
        yield Finding(
            Severity.warning,
            "swap",
            f"{format_binary_size(audit.kernel.swap_used)} of swap are in use.",
            "Those pages come back one by one, to whatever frames are free then.",
            ("swapoff -a && swapon -a",),
            audit.kernel.swap_used,
        )


def _overcommit(audit: Audit) -> Iterator[Finding]:
    kernel = audit.kernel
    if kernel.overcommit == 2 and kernel.commit_limit is not None and kernel.committed is not None:
        left = max(0, kernel.commit_limit - kernel.committed)
        if audit.usage.available is not None and left < audit.usage.available:
            yield Finding(
                Severity.note,
                "strict-overcommit",
                f"Only {format_binary_size(left)} may still be promised (overcommit_memory is 2), of "
                f"{format_binary_size(audit.usage.available)} that are available.",
                "Programs that map more than they use, and choosing among spare frames, are refused.",
                ("echo 0 > /proc/sys/vm/overcommit_memory",),
            )


def _compaction(audit: Audit) -> Iterator[Finding]:
    counts = audit.kernel.compaction
    if counts.stalls and counts.fails is not None and counts.stalls >= FEWEST_STALLS:
        share = counts.fails / counts.stalls
        if share >= MANY_FAILS:
            yield Finding(
                Severity.warning,
                "compaction-fails",
                f"{format_share(share)} of {format_count(counts.stalls)} compactions that a program waited "
                "for failed.",
                "The wait was for nothing: the program got small pages after it.",
                _PREPARE,
                share,
            )


def _snoop_filter(audit: Audit) -> Iterator[Finding]:
    share = audit.snoop_filter_share
    if share is not None and share > FILTER_SHARE:
        yield Finding(
            Severity.warning,
            "snoop-filter",
            f"This processor's snoop filter cannot hold {100 * share:.1f}% of what full L2s hold of "
            "contiguous memory, in the mean over where it lies.",
            "Such lines leave the L2s, too; which pages a program has decides how many they are."
            + "".join(f" {note}" for note in audit.snoop_filter_notes),
            (
                "pagelens machines detect -o here.toml",
                "sudo pagelens conflicts --machine here.toml --pid PID --pool free",
            ),
            share,
        )


def _guest(audit: Audit) -> Iterator[Finding]:
    if audit.hypervisor:
        yield Finding(
            Severity.note,
            "guest",
            f"This is a guest of {audit.hypervisor}: the frames that it sees are its own, not the memory's.",
            "Which slots, banks and slices they fall to is decided by the host's pages under them: to sort "
            "or choose frames here is of no certain use.",
            ("pagelens audit  # on the host",),
        )


def _rights(audit: Audit) -> Iterator[Finding]:
    if audit.rights.frames is False:
        yield Finding(
            Severity.note,
            "no-rights",
            "This user may not see frame numbers (CAP_SYS_ADMIN).",
            "Which frames are free or under a program, and whether they conflict, is not known without.",
            ("sudo pagelens audit",),
        )


def _at_boot(options: str) -> tuple[str, ...]:
    return (f"grubby --update-kernel=ALL --args='{options}'", "reboot")


def _pool(audit: Audit, size: int) -> HugePages | None:
    return next((pool for pool in audit.huge_pages if pool.page_size == size), None)


RULES: tuple[Rule, ...] = (
    _lists,
    _fragmentation,
    _tiers,
    _snoop_filter,
    _numa_fake,
    _swap,
    _large_pages,
    _page_cache,
    _balancing,
    _compaction,
    _guest,
    _rights,
    _unused_pool,
    _gigantic,
    _pinned_blocks,
    _intel_module,
    _assumed_cache,
    _overcommit,
)
