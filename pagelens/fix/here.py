"""Applies the remedies to the machine that pagelens runs on, as its commands request them."""

from dataclasses import dataclass

from pagelens.errors import UsageError
from pagelens.fix.hugepages import TOOL, conflict_share, order_pool, pool_frames
from pagelens.fix.offline import Turned, turn_memory
from pagelens.fix.system import require_real_frames
from pagelens.host.commands import ThisMachine
from pagelens.host.native_files import native_file
from pagelens.units import format_binary_size


@dataclass(frozen=True)
class OrderedPool:
    """A pool of huge pages that was put in order, with its conflict share before and after."""

    pages: int
    share_before: float
    share_after: float


def order_pool_here(page_bytes: int, cache_bytes: int, node: int, virtual: bool = False) -> OrderedPool:
    """Order the pool of huge pages of a NUMA node. `virtual` allows it in a virtual machine.

    Raises UsageError for a page size without a pool, an empty pool, and where frames are not real.
    """
    page = format_binary_size(page_bytes)
    if page_bytes not in (2 << 20, 1 << 30):
        raise UsageError(f"--page {page}: has no pool; name 2MiB or 1GiB")
    require_real_frames(virtual)
    machine, tool = ThisMachine(), native_file(TOOL)
    before = pool_frames(machine, tool, page_bytes, node)
    if not before:
        raise UsageError(f"--node {node}: its pool has no free page of {page}; reserve some by nr_hugepages")
    after = order_pool(machine, tool, page_bytes, cache_bytes, node)
    shares = (conflict_share(frames, page_bytes, cache_bytes) for frames in (before, after))
    return OrderedPool(len(after), *shares)


def turn_memory_here(cache_bytes: int, node: int, virtual: bool = False) -> Turned:
    """Order the free memory of a NUMA node block by block. `virtual` allows it in a virtual machine."""
    require_real_frames(virtual)
    return turn_memory(ThisMachine(), cache_bytes, node)
