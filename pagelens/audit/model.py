"""The readings of a node, as data.

None or an empty tuple means that nothing says. Sizes are in bytes, shares from 0 to 1. `asdict` of these
classes is the JSON of docs/audit.md. Fields may be added, but never renamed.
"""

from dataclasses import dataclass
from enum import StrEnum

from pagelens.address.units import FRAME_BYTES, GIGANTIC_PAGE_BYTES, HUGE_PAGE_BYTES
from pagelens.host.file_pages import CachedFile
from pagelens.host.kernel_settings import Kernel, Rights, Usage

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
    source: str  # of the statement


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
    kind: str | None  # as hwloc calls it: MCDRAM, HBM, CXL-DRAM
    side_cache: SideCache | None
    faster: bool | None  # of memory only: than that of the processors


@dataclass(frozen=True)
class Zone:
    """A zone's free memory, and the kernel's indices for an allocation of 2 MiB (fragmentation.py)."""

    node: int
    name: str
    free_blocks: tuple[int, ...]  # by order
    free: int
    unusable: float  # of the free memory, the share in blocks too small
    fragmentation: float | None  # None: the allocation would succeed; else 0 lack of memory, 1 fragmentation
    pageblocks: dict[str, int] | None  # of 2 MiB, by migrate type; only root can read them


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
    kernel: Kernel
    usage: Usage
    rights: Rights
    snoop_filter_share: float | None  # of what the L2s hold, beyond its ways; mean over contiguous buffers
    snoop_filter_notes: tuple[str, ...]  # what of it is assumed
    files: tuple[CachedFile, ...] = ()  # that were asked for, and where the page cache holds them


@dataclass(frozen=True)
class Effect:
    """What frames do to a job. A value is None if the machine file does not say enough."""

    conflict_share: float | None  # of its pages, those whose slot of the memory-side cache holds another
    bank_load: float | None  # lines of the most loaded DRAM bank over the mean
    row_conflicts: float | None  # of the steps of two streams, one through each half: one bank, two rows
    filter_share: float | None  # of the lines in full L2s, those beyond the snoop filter's ways: mean
    filter_worst: float | None


@dataclass(frozen=True)
class ProbedPlacement:
    """One way to place the probed job."""

    name: str  # "probed", or a policy's (docs/frames.md), or "half"
    title: str
    source: str  # "measured", "free frames", "model"
    effect: Effect
    large_share: float  # of the job on frames that lie as large pages do
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
