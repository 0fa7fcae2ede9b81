"""Orders the pool of huge pages so that a job's pages do not share slots of a memory-side cache."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pagelens.address.units import FRAME_BYTES
from pagelens.errors import Failure
from pagelens.fix.system import require_cache, require_node
from pagelens.host.commands import CommandRunner

TOOL = "pagelens_hugepages"  # in pagelens/lib; static, so that it runs in a guest as well


def pool_frames(system: CommandRunner, tool: Path, page_bytes: int, node: int) -> list[int]:
    """Return the first frame of each free page of a node's pool, in the order of handing out."""
    return _run(system, tool, page_bytes, 0, node)


def order_pool(system: CommandRunner, tool: Path, page_bytes: int, cache_bytes: int, node: int) -> list[int]:
    """Order a node's pool by the rule of docs/zonesort.md. Return its frames as pool_frames() does.

    For a moment all free pages of the pool are taken: a job that starts just then may find none. They go back
    to the pool however the tool ends. Raises UsageError if the cache does not hold whole pages or there is no
    such node, Failure with the tool's words.
    """
    require_cache(cache_bytes, page_bytes)
    return _run(system, tool, page_bytes, cache_bytes, node)


def conflict_share(frames: Sequence[int], page_bytes: int, cache_bytes: int) -> float:
    """Return the share of a job's pages that share slots with another of its pages.

    The job fills the cache with the pool's first pages.
    """
    first = [frame * FRAME_BYTES % cache_bytes for frame in frames[: cache_bytes // page_bytes]]
    pages_at = Counter(first)
    return sum(pages_at[at] > 1 for at in first) / len(first) if first else 0.0


def _run(system: CommandRunner, tool: Path, page_bytes: int, cache_bytes: int, node: int) -> list[int]:
    require_node(system, node)
    done = system.run(str(tool), str(page_bytes), str(cache_bytes), str(node))
    if done.status != 0:
        why = done.output.strip() or f"killed by signal {-done.status}"
        raise Failure(f"the pool of huge pages of node {node} cannot be ordered: {why}")
    return [int(line) for line in done.output.split()]
