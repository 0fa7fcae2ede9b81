"""The time of a placement: in every interval that of the slowest resource, each of them affine in the shares.

The resources are those of `pagelens.machine.time.tiered_times`. That model is asked for the time of one line
at each resource, so that there is only one model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pagelens.machine import CoreTimes, tiered_times
from pagelens.place.profile import Profile

Floats = NDArray[np.float64]
_LINES = ("fast_reads", "fast_writes", "slow_reads", "slow_writes")
# What a core takes alone, and how long its miss buffers are busy, as `tiered_times` calls these.
OF_CORE = ("issue and stalls", "miss buffers")
_SLOW = "slow memory"  # is DDR in processors' times; here it may be CXL's, another socket's or a GPU's host's


@dataclass(frozen=True)
class TimeModel:
    """The seconds of every resource r in interval i with all in slow memory.

    The model also has what each line gains in fast memory.
    """

    resources: tuple[str, ...]
    slow: Floats  # [r, i]
    per_read: Floats  # [r, i] seconds more if a line is read from fast memory instead of slow
    per_write: Floats  # [r, i]
    reads: Floats  # [i, o]
    writes: Floats

    @classmethod
    def of(cls, profile: Profile) -> "TimeModel":
        """Return the model for a profile's machine."""
        zero = np.zeros(len(profile.phases))

        def resources(lines: Mapping[str, Floats], core: CoreTimes | None = None) -> Mapping[str, Floats]:
            counts = {**profile.counts, **dict.fromkeys(_LINES, zero), **lines}
            return tiered_times(profile.machine, counts, profile.cores_used, core).resources

        none = resources({})
        names = tuple(none)

        def per_line(name: str) -> Floats:
            one = resources({name: np.ones_like(zero)})
            return np.array([(one[resource] - none[resource])[0] for resource in names])

        each = {name: per_line(name)[:, None] for name in _LINES}
        reads, writes = profile.reads.sum(axis=1), profile.writes.sum(axis=1)
        slow = np.array([none[name] for name in names])
        slow = slow + each["slow_reads"] * reads + each["slow_writes"] * writes
        per_read = np.broadcast_to(each["fast_reads"] - each["slow_reads"], slow.shape)
        per_write = np.broadcast_to(each["fast_writes"] - each["slow_writes"], slow.shape)
        if profile.core is not None:
            # How many misses overlap depends on how many there are, so all of them are given at once.
            in_slow, in_fast = (
                resources({f"{memory}_reads": reads}, profile.core) for memory in ("slow", "fast")
            )
            for name in OF_CORE:
                more = in_fast[name] - in_slow[name]
                gained = np.divide(more, reads, out=np.zeros_like(reads), where=reads > 0)
                slow, per_read = np.vstack([slow, in_slow[name]]), np.vstack([per_read, gained])
                per_write = np.vstack([per_write, zero])
            names = (*names, *OF_CORE)
            for name in {"issue", "caches"}.intersection(names):  # no line of memory changes these
                slow[names.index(name)] = resources({}, profile.core)[name]
        return cls(
            tuple(_SLOW if name == "DDR" else name for name in names),
            slow,
            per_read,
            per_write,
            profile.reads,
            profile.writes,
        )

    def by_resource(self, shares: Floats) -> Floats:
        """Return seconds [r, i].

        `shares` [o] in 0..1 is the share of each object in fast memory, or [i, o] if the shares change.
        """
        reads, writes = (self.reads * shares).sum(axis=1), (self.writes * shares).sum(axis=1)
        return np.asarray(self.slow + self.per_read * reads + self.per_write * writes)

    def by_interval(self, shares: Floats) -> Floats:
        """Return seconds [i]."""
        return np.asarray(self.by_resource(shares).max(axis=0))

    def seconds(self, shares: Floats) -> float:
        """Return the seconds of the whole run."""
        return float(self.by_interval(shares).sum())

    @cached_property
    def all_slow_s(self) -> float:
        """The seconds with nothing in fast memory."""
        return self.seconds(np.zeros(self.reads.shape[1]))

    @cached_property
    def all_fast_s(self) -> float:
        """The seconds with everything in fast memory, whatever the capacity."""
        return self.seconds(np.ones(self.reads.shape[1]))

    def gain(self, seconds: float) -> float:
        """Return the gain as a share of what all in fast memory gains, or 0 if that gains nothing."""
        gained = self.all_slow_s - self.all_fast_s
        return (self.all_slow_s - seconds) / gained if gained > 0 else 0.0

    def seconds_of_many(self, shares: Floats) -> Floats:
        """Return the seconds [n] of placements [n, o]."""
        reads, writes = self.reads @ shares.T, self.writes @ shares.T  # [i, n]
        times = np.full(reads.shape, -np.inf)
        for slow, read, write in zip(self.slow, self.per_read, self.per_write, strict=True):
            np.maximum(times, slow[:, None] + read[:, None] * reads + write[:, None] * writes, out=times)
        return np.asarray(times.sum(axis=0))
