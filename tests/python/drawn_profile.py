"""Profiles of programs that nobody ran: drawn counts, for properties that must hold of all."""

from collections.abc import Sequence

import numpy as np
from machine_roles import FLAT_MODE
from numpy.typing import NDArray

from pagelens.accesses.workload import ObjectInfo
from pagelens.machine import load_machine
from pagelens.place.profile import Profile, without_dominated

Floats = NDArray[np.float64]
MIB = 1 << 20


def profile_of(
    reads: Floats, writes: Floats, course: Floats, machine: str = FLAT_MODE,
    phases: Sequence[str] | None = None, instructions: float = 0.0, names: Sequence[str] | None = None,
) -> Profile:  # fmt: skip
    """[i, o] lines of one rank, [m, o] bytes; object 0 is the kernel's and cannot be placed."""
    intervals, objects = reads.shape
    none = np.zeros(intervals)
    walks = ("l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads")
    known = [ObjectInfo(0, "[kernel: page clearing]")] + [
        ObjectInfo(o, names[o] if names else f"object {o}", births=1, declared=True)
        for o in range(1, objects)
    ]
    taken = load_machine(machine)
    return Profile(
        name="drawn",
        machine=taken,
        ranks=1,
        cores_used=taken.cores.count.value,  # so that bandwidths decide
        objects=known,
        can_be_placed=np.arange(objects) > 0,
        phases=phases or ["run"] * intervals,
        counts={**dict.fromkeys(walks, none), "instructions": np.full(intervals, instructions)},
        reads=reads,
        writes=writes,
        accesses=(reads + writes).sum(axis=0),
        in_sequence=np.ones(objects),
        threads=np.ones(objects, dtype=np.uint32),
        course=course,
        live_bytes=without_dominated(course),
        simulated=1.0,
    )


def drawn(random: np.random.Generator, objects: int, intervals: int, small: bool) -> Profile:
    """Objects with lives of their own; `small`: none is divided."""
    size = np.exp(random.normal(9 if small else 14, 1.0, objects + 1)).round() + 64
    size = np.minimum(size, 100_000) if small else size + (1 << 20)
    size[0] = 0
    used = random.random((intervals, objects + 1)) < 0.6
    reads = np.where(used, random.integers(0, 1_000_000, (intervals, objects + 1)), 0).astype(float)
    writes = np.where(used, random.integers(0, 500_000, (intervals, objects + 1)), 0).astype(float)
    alive = random.random((6, objects + 1)) < 0.7
    alive[0] = True
    return profile_of(reads, writes, np.where(alive, size, 0.0), instructions=random.choice([0.0, 3e8]))
