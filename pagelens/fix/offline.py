"""Memory taken offline and brought back, block by block, in the order in which it is to be used.

Pages that come online go to the tails of the free lists, whole: after a turn of all blocks that can be
emptied, their memory follows in the order of the turn. What stays is handed out first: the free frames of
blocks that hold pages which cannot move. So blocks whose slots those frames leave empty come next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.errors import Failure
from pagelens.fix.system import System
from pagelens.machine.schema import FRAME_BYTES

_MEMORY = "/sys/devices/system/memory"
_KPF_BUDDY = 10  # linux/kernel-page-flags.h

# Back to the zone that it was in: "online" alone might choose another.
_TURN = """
cd {memory}/memory{block} || exit 1
case $(cat valid_zones) in Movable*) how=online_movable;; *) how=online_kernel;; esac
trap '' INT TERM
echo offline > state || exit 1
echo $how > state || echo online > state || exit 2
"""


@dataclass(frozen=True)
class Turned:
    """Memory blocks by number: those taken offline and brought back, in this order, and the others."""

    order: list[int]
    stuck: list[int]
    block_bytes: int


def turn_memory(system: System, cache_bytes: int, node: int) -> Turned:
    """Sorts a node's free memory for a direct-mapped cache. Raises Failure if the kernel cannot do it."""
    block_bytes = int(system.shell(f"cat {_MEMORY}/block_size_bytes").output.strip() or "0", 16)
    listed = system.shell(f"ls -d /sys/devices/system/node/node{node}/memory[0-9]*")
    if block_bytes == 0 or listed.status != 0:
        raise Failure(f"node {node}: this kernel cannot take memory offline (CONFIG_MEMORY_HOTREMOVE)")
    blocks = sorted(int(path.rpartition("memory")[2]) for path in listed.output.split())
    able = [block for block in blocks if _turn(system, block)]
    stuck = [block for block in blocks if block not in able]
    frames = block_bytes // FRAME_BYTES
    flags = np.frombuffer(system.get("/proc/kpageflags"), dtype=np.uint64)
    free = [
        np.flatnonzero(flags[b * frames : (b + 1) * frames] >> _KPF_BUDDY & 1) + b * frames for b in stuck
    ]
    order = best_order(
        able, frames, cache_bytes // FRAME_BYTES, np.concatenate(free) if free else np.empty(0)
    )
    return Turned([block for block in order if _turn(system, block)], stuck, block_bytes)


def best_order(
    blocks: Sequence[int], frames_per_block: int, slots: int, used_before: NDArray[np.generic]
) -> list[int]:
    """Step 4 of docs/zonesort.md for blocks of memory; frames `used_before` are handed out first."""
    own = np.zeros(slots, dtype=bool)
    own[used_before.astype(np.int64) % slots] = True
    slot = {block: block * frames_per_block % slots for block in sorted(blocks)}
    gain = {
        block: int(np.count_nonzero(~own[(start + np.arange(frames_per_block)) % slots]))
        for block, start in slot.items()
    }
    first: dict[int, int] = {}
    for block, start in slot.items():
        first.setdefault(start, block)
    firsts = sorted(first.values(), key=lambda block: (-gain[block], slot[block], block))
    later = sorted(slot.keys() - set(firsts), key=lambda block: (gain[block], slot[block], block))
    return firsts + later


def _turn(system: System, block: int) -> bool:
    done = system.shell(_TURN.format(memory=_MEMORY, block=block))
    if done.status == 2:
        raise Failure(f"memory block {block} stays offline: {done.output.strip()}; echo online > its state")
    return done.status == 0
