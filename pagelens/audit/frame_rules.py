"""Rules on which frames a job gets and what they cost it: free lists, caches, rights.

A rule is a function that yields its findings. It yields nothing where the system does not say.
"""

from collections.abc import Iterator

from pagelens.audit.model import Audit, Finding, Severity
from pagelens.frames.policies.commands import DROP_CACHES, sort_nodes
from pagelens.frames.policies.numa_fake import boot_with_fake_nodes
from pagelens.frames.policies.zonesort import sort_commands
from pagelens.units import format_binary_size, format_share

ENOUGH_TURNOVER = 1.0  # memory handed out once over leaves the free lists in another order (docs/frames.md)
FILTER_SHARE = 0.01  # of lines that do not fit: between good and bad parts (docs/results/snoop-filter.md)


def lists(audit: Audit) -> Iterator[Finding]:
    """Check the order of the free lists in front of a direct-mapped cache."""
    cache, kernel = audit.cache, audit.kernel
    if cache is None or cache.ways > 1:
        return
    size, share = format_binary_size(cache.size), cache.random_share
    why = (
        f"On frames in no order, {format_share(share)} of the pages of a job as large as the cache ({size}) "
        "share their slot with another of its pages. After a sort, none do."
    )
    numa_nodes = [node.number for node in audit.nodes if node.processors != 0]
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
            f"{why} Ask it to sort before each job, in the prologue.",
            (DROP_CACHES, *sort_nodes(numa_nodes)),
        )
        return
    if kernel.numa_fake:
        return  # numa_fake judges it
    remedy = sort_commands(numa_nodes)
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


def numa_fake(audit: Audit) -> Iterator[Finding]:
    """Check whether NUMA emulation cuts nodes as large as the cache."""
    if not audit.kernel.numa_fake or audit.cache is None:
        return
    largest = max((node.size or 0 for node in audit.nodes), default=0)
    size = format_binary_size(audit.cache.size)
    if largest > audit.cache.size:
        yield Finding(
            Severity.warning,
            "numa-fake",
            f"numa=fake={audit.kernel.numa_fake} makes nodes of {format_binary_size(largest)}, larger than "
            f"the cache ({size}).",
            "A job bound to one of them can conflict with itself.",
            boot_with_fake_nodes(audit.cache.memory, audit.cache.size),
        )
    else:
        yield Finding(
            Severity.good,
            "numa-fake",
            f"numa=fake={audit.kernel.numa_fake} makes nodes no larger than the cache ({size}).",
            "A job bound to one of them has no conflicts: numactl --membind=N ./app.",
        )


def intel_module(audit: Audit) -> Iterator[Finding]:
    """Report Intel's zonesort module of 2017."""
    if audit.kernel.zonesort.kind == "intel":
        yield Finding(
            Severity.note,
            "intel-zonesort",
            "The zonesort module is Intel's of 2017.",
            "It leaves per-cpu lists and broken blocks as they are, and assumes that every cache has 16 GiB.",
            ("make -C zonesort install && rmmod zonesort_module && modprobe zonesort_module",),
        )


def assumed_cache(audit: Audit) -> Iterator[Finding]:
    """Report a cache that the machine does not show."""
    if audit.cache is not None and audit.cache.assumed:
        yield Finding(
            Severity.note,
            "cache-assumed",
            f"The cache of {format_binary_size(audit.cache.size)} before memory is assumed, because the "
            "machine does not show it.",
            f"The assumption is: {audit.cache.assumed}. If it is wrong, correct here.toml.",
            ("pagelens machines detect -o here.toml", "pagelens audit --machine here.toml"),
        )


def snoop_filter(audit: Audit) -> Iterator[Finding]:
    """Report a processor whose snoop filter conflicts with contiguous memory."""
    share = audit.snoop_filter_share
    if share is not None and share > FILTER_SHARE:
        yield Finding(
            Severity.warning,
            "snoop-filter",
            f"This processor's snoop filter cannot hold {100 * share:.1f}% of the lines that full L2s hold "
            "of contiguous memory. This is the mean over the places where the memory can lie.",
            "Lines that it cannot hold leave the L2s too. The pages of a program decide how many these are."
            + "".join(f" {note}" for note in audit.snoop_filter_notes),
            (
                "pagelens machines detect -o here.toml",
                "sudo pagelens conflicts --machine here.toml --pid PID --pool free",
            ),
            share,
        )


def guest(audit: Audit) -> Iterator[Finding]:
    """Report a hypervisor below."""
    if audit.hypervisor:
        yield Finding(
            Severity.note,
            "guest",
            f"This is a guest of {audit.hypervisor}, so the frames that it sees are not those of the memory.",
            "The host's pages decide which slots, banks and slices they use. Sorting or choosing frames in "
            "the guest may therefore not help.",
            ("pagelens audit  # on the host",),
        )


def rights(audit: Audit) -> Iterator[Finding]:
    """Report what this user may not see."""
    if audit.rights.frames is False:
        yield Finding(
            Severity.note,
            "no-rights",
            "This user may not see frame numbers (CAP_SYS_ADMIN).",
            "Only root can see which frames are free, which belong to a program, and which conflict.",
            ("sudo pagelens audit",),
        )
