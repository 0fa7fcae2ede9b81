"""The readings of a node, as data.

None or an empty tuple means that nothing says. Sizes are in bytes, shares from 0 to 1. `asdict` of these
classes is the JSON of docs/audit.md. Fields may be added, but never renamed.
"""

from dataclasses import dataclass
from enum import StrEnum

from pagelens.address.units import FRAME_BYTES, GIGANTIC_PAGE_BYTES, HUGE_PAGE_BYTES
from pagelens.host.file_pages import CachedFile
from pagelens.host.kernel_settings import KernelSettings, Rights, Usage

SMALL, LARGE, GIGANTIC = FRAME_BYTES, HUGE_PAGE_BYTES, GIGANTIC_PAGE_BYTES


class Severity(StrEnum):
    """The severities, most important first."""

    bad = "bad"
    warning = "warning"
    note = "note"
    good = "good"


@dataclass(frozen=True)
class Finding:
    """What was seen, why it matters, and the commands that change it."""

    severity: Severity
    code: str  # a stable name, for scripts
    seen: str
    why: str
    remedy: tuple[str, ...] = ()  # shell commands
    value: float | None = None  # the number that it is about


@dataclass(frozen=True)
class SideCache:
    """A cache in front of a memory."""

    size: int
    direct_mapped: bool | None
    line: int | None
    source: str  # where the statement is from


@dataclass(frozen=True)
class MemoryNode:
    """A NUMA node with memory."""

    number: int
    processors: int | None  # logical; 0 where it is memory only
    size: int | None
    free: int | None
    bandwidth: int | None  # bytes a second, read, from its nearest processors (HMAT)
    latency_ns: int | None
    tier: int | None  # the kernel's: the lower, the faster
    kind: str | None  # MCDRAM, HBM or CXL-DRAM, as hwloc calls it
    side_cache: SideCache | None
    faster: bool | None  # whether a node of memory only is faster than the processors' own memory


@dataclass(frozen=True)
class Zone:
    """A zone's free memory, and the kernel's indices for an allocation of 2 MiB (fragmentation.py)."""

    node: int
    name: str
    free_blocks: tuple[int, ...]  # the number of free blocks of each order
    free: int
    unusable: float  # the share of the free memory in blocks that are too small
    # From 0 (memory is short) to 1 (it is fragmented); None if the allocation would succeed.
    fragmentation: float | None
    pageblocks: dict[str, int] | None  # the 2 MiB pageblocks of each migrate type, which only root can read


@dataclass(frozen=True)
class NodePool:
    """The part of a pool on one node."""

    node: int
    total: int
    free: int | None


@dataclass(frozen=True)
class HugePages:
    """The pool of huge pages of one size, and an upper bound on the pages that could be added."""

    page_size: int
    total: int | None
    free: int | None
    reserved: int | None
    surplus: int | None
    overcommit: int | None
    nodes: tuple[NodePool, ...]
    more_now: int | None
    more_now_exact: bool  # whether frame flags were read, or the sizes of free blocks bound it
    more_at_most: int | None  # after dropping caches and compaction


@dataclass(frozen=True)
class Cache:
    """The direct-mapped cache in front of the machine's memory, as the machine file states it."""

    size: int
    memory: int
    ways: int
    assumed: str | None  # why the size is assumed; None if it was read
    random_share: float  # pages in conflict, of a job as large as the cache on random frames


@dataclass(frozen=True)
class Audit:
    """The readings of one node."""

    machine: str  # its title
    hypervisor: str | None
    nodes: tuple[MemoryNode, ...]
    cache: Cache | None
    zones: tuple[Zone, ...]
    huge_pages: tuple[HugePages, ...]
    kernel: KernelSettings
    usage: Usage
    rights: Rights
    # Share of what the L2s hold beyond its ways; mean over contiguous buffers.
    snoop_filter_share: float | None
    snoop_filter_notes: tuple[str, ...]  # say what is assumed of it
    files: tuple[CachedFile, ...] = ()  # the files that were asked for, and where the page cache holds them


@dataclass(frozen=True)
class Effect:
    """What frames do to a job. A value is None if the machine file does not say enough."""

    # The share of its pages whose slot of the memory-side cache holds another page.
    conflict_share: float | None
    bank_load: float | None  # lines of the most loaded DRAM bank over the mean
    # The share of steps of two streams, one through each half, in one bank and two rows.
    row_conflicts: float | None
    filter_share: float | None  # the mean share of lines in full L2s that are beyond the snoop filter's ways
    filter_worst: float | None


@dataclass(frozen=True)
class ProbedPlacement:
    """One way to place the probed job."""

    name: str  # "probed", or a policy's (docs/frames.md), or "half"
    title: str
    source: str  # "measured", "free frames", "model"
    effect: Effect
    large_share: float  # the share of the job on frames that lie as large pages do
    remedy: tuple[str, ...] = ()


@dataclass(frozen=True)
class Probe:
    """What a job of the probed size would meet."""

    size: int
    pages: str  # 4k, thp, 2m, 1g
    machine: str  # the machine whose caches, banks and filter judge it
    measured: bool  # its frames were seen
    verified: bool  # they are the memory's, not a guest's
    nodes: dict[int, float]  # share of the job on each NUMA node
    placements: tuple[ProbedPlacement, ...]
    notes: tuple[str, ...]
