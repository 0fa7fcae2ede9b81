"""Rules on NUMA nodes: slower and faster memory, and what lies on the wrong node or is moved.

A rule is a function that yields its findings. It yields nothing where the system does not say.
"""

from collections.abc import Iterator, Sequence

from pagelens.audit.model import Audit, Finding, MemoryNode, Severity
from pagelens.frames.policies.commands import PREPARE
from pagelens.host.huge_page_pools import pool_folder
from pagelens.spelling import typed
from pagelens.units import format_binary_size, format_count, format_rate, format_share

ONE_SIDED = 0.9  # of a file's cached pages, or of a pool, on one node: assumed
UNEVEN = 0.5  # of the largest free share of a node: less is uneven (assumed)


def with_processors(audit: Audit) -> Sequence[MemoryNode]:
    """Return the nodes that have processors."""
    return [node for node in audit.nodes if node.processors]


def tiers(audit: Audit) -> Iterator[Finding]:
    """Report memory without processors."""
    local = with_processors(audit)
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
    if len(with_processors(audit)) < 2:
        return
    for file in audit.files:
        placed = sum(file.by_node.values())
        if not placed:
            continue
        number, most = max(file.by_node.items(), key=lambda pair: pair[1])
        if most > ONE_SIDED * placed:
            name, share = typed(file.path), most / placed
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


def demotion(audit: Audit) -> Iterator[Finding]:
    """Report slower memory to which the kernel does not move what is hardly used."""
    slower = [node for node in audit.nodes if node.processors == 0 and node.faster is False]
    if slower and audit.kernel.demotion is False:
        yield Finding(
            Severity.note,
            "no-demotion",
            f"The kernel does not move pages that are hardly used to NUMA node {slower[0].number}.",
            "Where the faster memory is full, it swaps such pages or drops them, and new pages of a job lie "
            "on the slower node however often they are used.",
            ("echo true > /sys/kernel/mm/numa/demotion_enabled",),
        )


def uneven_free(audit: Audit) -> Iterator[Finding]:
    """Report a node that has much less free memory than another one."""
    shares = {n.number: n.free / n.size for n in with_processors(audit) if n.size and n.free is not None}
    if len(shares) < 2:
        return
    (least, low), (most, high) = (f(shares.items(), key=lambda pair: pair[1]) for f in (min, max))
    if low < UNEVEN * high:
        yield Finding(
            Severity.warning,
            "uneven-free",
            f"NUMA node {least} has {format_share(low)} of its memory free, and node {most} "
            f"{format_share(high)}.",
            f"What a job on node {least} cannot get there lies on another node, even where node {least} is "
            "full of files that could be dropped.",
            PREPARE,
            low / high,
        )


def pools(audit: Audit) -> Iterator[Finding]:
    """Report pools of huge pages that lie on one node."""
    near = {node.number for node in with_processors(audit)}
    for pool in audit.huge_pages:
        of_nodes = [node for node in pool.nodes if node.node in near]
        total = sum(node.total for node in of_nodes)
        if len(of_nodes) < 2 or not total:
            continue
        most = max(of_nodes, key=lambda node: node.total)
        if most.total > ONE_SIDED * total:
            each = total // len(of_nodes)
            folders = [pool_folder(pool.page_size, node.node) for node in of_nodes]
            yield Finding(
                Severity.warning,
                "pool-on-one-node",
                f"{format_share(most.total / total)} of the pool of {format_binary_size(pool.page_size)} "
                f"pages lie on NUMA node {most.node}.",
                "A job on another node gets its huge pages from there.",
                tuple(f"echo {each} > {folder}/nr_hugepages" for folder in folders),
                most.total / total,
            )
