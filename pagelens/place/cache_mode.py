"""Fast memory as a direct-mapped cache of slow memory, which needs no plan, for comparison with plans.

The machine is the machine's cache mode if there is a file of it, else the same memories with the cache put
between them. The cache is as large as the largest power of two that fits into the capacity. Two nodes bound
what it does: one with frames in a row, as after a boot, and one with random frames, as after a long history
(docs/frames.md).
"""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pagelens import _core
from pagelens.accesses.workload import Timeline
from pagelens.address.units import FRAME_BYTES
from pagelens.frames import Node, policies
from pagelens.machine import TRANSLATION_COUNTS, Machine
from pagelens.machine.memories import Memory, MemorySideCache, Ways
from pagelens.place.profile import Profile
from pagelens.replay.course import course_times
from pagelens.replay.placement import place
from pagelens.values.quantities import Seconds, Sourced

LEAST_BYTES = 4 << 20  # of a memory-side cache: what its slots need (pagelens/machine/schema.py)
MOST_ON_A_SLOT = 63  # times the cache that memory may have
ROUNDED = 64 << 20  # bytes: memory is a multiple of it


@dataclass(frozen=True)
class CacheMode:
    """Seconds of the run with a cache of `bytes` bytes for all ranks."""

    bytes: int
    in_a_row_s: float
    at_random_s: float


def cache_modes(
    profile: Profile, course: Timeline, capacities: Iterable[float], cancel: _core.CancelFlag | None = None
) -> list[CacheMode]:
    """Return a result for each power of two in a capacity (bytes of all ranks) that can be simulated.

    `profile` was made of `course`, and translation costs what it has counted. Raises _core.Cancelled.
    """
    sizes = dict.fromkeys(1 << (int(capacity).bit_length() - 1) for capacity in capacities if capacity >= 1)
    machine, ranks = profile.machine, profile.ranks
    translation = {name: profile.counts[name] for name in TRANSLATION_COUNTS}
    # With frames in the order of addresses, every page that was ever used has a frame of its own.
    job = ranks * len(course.program.pages) * FRAME_BYTES

    def seconds(cached: Machine, policy: str) -> float:
        placement = place(policies[policy], cached, Node(cached, 0, 0))
        of_intervals = course_times(
            course, placement, ranks, profile.cores_used, translation, profile.core, cancel
        )
        return float(of_intervals.sum())

    machines = {}
    for size in sizes:
        memory = max(2 * size, -(-job * 5 // 4 // ROUNDED) * ROUNDED)
        if size >= LEAST_BYTES and memory <= MOST_ON_A_SLOT * size:
            machines[size] = _in_cache_mode(machine, size, memory)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="pagelens-cache") as pool:
        rows = {
            size: [pool.submit(seconds, cached, policy) for policy in ("contiguous", "random")]
            for size, cached in machines.items()
        }
        return [CacheMode(size, *(one.result() for one in pair)) for size, pair in rows.items()]


def _in_cache_mode(machine: Machine, size: int, memory: int) -> Machine:
    """Return the machine with a cache of `size` bytes in front of slow memory of `memory` bytes."""
    fast, slow = machine.fast_memory, machine.ddr
    assert fast is not None
    cache = MemorySideCache(
        ways=Sourced[Ways](value=1, assumed="as KNL's and Xeon Max's"),
        miss_latency=Sourced[Seconds].model_validate(
            {
                "value": f"{1e9 * (fast.latency.value + slow.latency.value):.3f} ns",
                "assumed": "the cache is probed before memory is asked",
            }
        ),
    )

    def sized(what: Memory, size_bytes: int) -> Memory:
        stated = what.size.model_copy(update={"value": size_bytes})
        return what.model_copy(update={"size": stated})

    return machine.model_copy(
        update={
            "mode": "cache",
            "memory_side_cache": cache,
            "fast_memory": sized(fast, size),
            "ddr": sized(slow, memory),
            "dram": None,
        }
    )
