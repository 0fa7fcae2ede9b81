"""Takes memory offline and brings it back, block by block, in the order in which it should be used.

Pages that come online go to the tails of the free lists, in whole blocks. After a turn of all blocks that can
be emptied, their memory follows in the order of the turn. The free frames of blocks with pages that cannot
move stay, and are handed out first. So the next blocks are those whose slots these frames leave empty.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import FRAME_BYTES
from pagelens.errors import Failure
from pagelens.fix.system import NODES, require_cache, require_node, uninterrupted
from pagelens.host.commands import CommandRunner
from pagelens.host.page_entries import BUDDY

_MEMORY = "/sys/devices/system/memory"

_PATIENCE_S = 60  # the kernel may try for ever to empty a block, until a signal ends it

# Whatever ends pagelens, this goes on until the block is online again, and in the zone that it was in. The
# word "online" alone might choose another zone.
_TURN = """
trap '' HUP INT PIPE QUIT TERM
cd {memory}/memory{block} || exit 1
case $(cat valid_zones) in Movable*) how=online_movable;; *) how=online_kernel;; esac
timeout -s USR1 {patience} sh -c 'echo offline > state'
test "$(cat state)" = offline || exit 1
echo $how > state || echo online > state || exit 2
"""


@dataclass(frozen=True)
class Turned:
    """The memory blocks taken offline and brought back, in this order, and the other ones, by number."""

    order: list[int]
    stuck: list[int]
    block_bytes: int


def turn_memory(system: CommandRunner, cache_bytes: int, node: int) -> Turned:
    """Sort a node's free memory for a direct-mapped cache. Blocks that are offline stay offline.

    Ctrl-C ends it after the block that is under way; no block stays offline. Raises UsageError for a node or
    a cache that cannot be, Failure if the kernel cannot do it, or would empty a pool of huge pages by it.
    """
    require_cache(cache_bytes, FRAME_BYTES)
    require_node(system, node)
    _require_no_pool(system, node)
    block_bytes = int(system.shell(f"cat {_MEMORY}/block_size_bytes").output.strip() or "0", 16)
    online = system.shell(f"grep -lx online {NODES}/node{node}/memory[0-9]*/state")
    if block_bytes == 0 or online.status != 0:
        raise Failure(
            f"node {node}: this kernel cannot take memory offline; it needs CONFIG_MEMORY_HOTREMOVE, or else "
            "use `pagelens fix hugepages`"
        )
    blocks = sorted(int(path.split("/")[-2].removeprefix("memory")) for path in online.output.split())
    able = [block for block in blocks if _turn(system, block)]
    frames = block_bytes // FRAME_BYTES
    flags = np.frombuffer(system.get("/proc/kpageflags"), dtype=np.uint64)
    free = [
        np.flatnonzero(flags[b * frames : (b + 1) * frames] >> BUDDY & 1) + b * frames
        for b in blocks
        if b not in able
    ]
    order = best_order(
        able, frames, cache_bytes // FRAME_BYTES, np.concatenate(free) if free else np.empty(0)
    )
    turned = [block for block in order if _turn(system, block)]
    return Turned(turned, [block for block in blocks if block not in turned], block_bytes)


def _require_no_pool(system: CommandRunner, node: int) -> None:
    """Raise Failure if the node has a pool of huge pages.

    Memory that goes offline takes free huge pages along, and the pool would not come back.
    """
    pools = system.shell(f"grep -vx 0 {NODES}/node{node}/hugepages/*/nr_hugepages /dev/null")
    if pools.status == 0:
        pool = pools.output.split(":")[0]
        raise Failure(
            f"node {node}: its huge pages would be lost; echo 0 > {pool} before, and ask for them again after"
        )


def best_order(
    blocks: Sequence[int], frames_per_block: int, slots: int, used_before: NDArray[np.generic]
) -> list[int]:
    """Apply step 4 of docs/zonesort.md to blocks of memory.

    Frames `used_before` are handed out first.
    """
    own = np.zeros(slots, dtype=bool)
    own[used_before.astype(np.int64) % slots] = True
    slot = {block: block * frames_per_block % slots for block in sorted(blocks)}
    gain = {
        block: int(np.count_nonzero(~own[(start + np.arange(frames_per_block)) % slots]))
        for block, start in slot.items()
    }
    seen = Counter[int]()  # blocks of these slots
    turn = {}
    for block, start in slot.items():
        turn[block] = seen[start]
        seen[start] += 1
    return sorted(slot, key=lambda block: (turn[block], -gain[block] if turn[block] == 0 else 0, slot[block]))


def _turn(system: CommandRunner, block: int) -> bool:
    with uninterrupted():
        done = system.shell(_TURN.format(memory=_MEMORY, block=block, patience=_PATIENCE_S))
    if done.status == 2:
        raise Failure(
            f"memory block {block} stays offline ({done.output.strip()}); "
            f"echo online > {_MEMORY}/memory{block}/state"
        )
    return done.status == 0
