"""Policies that choose objects for fast memory: what people do, and what has been proposed.

Every policy but `all-fast` keeps to the capacity at every moment of the run. All may divide the same objects
as the optimum. So they differ only in the order in which they choose.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from pagelens.place.optimum import divided
from pagelens.place.profile import Profile

Floats = NDArray[np.float64]

ALL_SLOW, ALL_FAST, OURS = "all-slow", "all-fast", "optimum"
MOVING, BETWEEN_REGIONS = "moving-optimum", "moving-regions"
CACHE_MODE, DEVELOPER = "cache-mode", "developer"
LEAST_OF_WINDOW = 1 << 20  # bytes: what autohbw moves by default (memkind's autohbw.7: AUTO_HBW_SIZE=1M)


Policy = Callable[[Profile, float], Floats]


def fill(profile: Profile, order: Iterable[int], capacity: float) -> Floats:
    """Give fast memory to objects in that order, each as far as it fits.

    Skip an undivided one that does not fit.
    """
    shares = np.zeros(len(profile.objects))
    free = np.full(len(profile.live_bytes), float(capacity))
    divisible = divided(profile)
    for number in order:
        live = profile.live_bytes[:, number]
        used = live > 0
        if not profile.can_be_placed[number] or not used.any():
            continue
        fits = float(np.min(free[used] / live[used]))
        share = min(1.0, fits) if divisible[number] or fits >= 1 else 0.0
        shares[number] = max(0.0, share)
        free -= shares[number] * live
    return shares


def _by(key: Callable[[Profile], Floats]) -> Policy:
    """Return a policy that takes objects by falling `key`, and equal ones in the order of their first use."""

    def place(profile: Profile, capacity: float) -> Floats:
        values = np.where(profile.bytes > 0, key(profile), -np.inf)
        return fill(profile, np.argsort(-values, kind="stable").tolist(), capacity)

    return place


def _per_byte(values: Floats, profile: Profile) -> Floats:
    return np.asarray(values / np.maximum(profile.bytes, 1))


def window(profile: Profile, capacity: float) -> Floats:
    """Take blocks of a size in autohbw's window, in the order of first use."""
    blocks = np.array([max(1, known.births) for known in profile.objects])
    inside = np.flatnonzero(profile.bytes / blocks >= LEAST_OF_WINDOW)
    return fill(profile, inside.tolist(), capacity)


METRICS: Mapping[str, Policy] = {
    "largest-first": _by(lambda profile: profile.bytes),
    "accesses-per-byte": _by(lambda profile: _per_byte(profile.accesses, profile)),
    "traffic-per-byte": _by(lambda profile: _per_byte(profile.traffic, profile)),
    "size-window": window,
}

TITLES: Mapping[str, str] = {
    ALL_SLOW: "all in slow memory",
    ALL_FAST: "all in fast memory, were it large enough",
    CACHE_MODE: "fast memory as a cache of the slow one",
    "largest-first": "largest objects first",
    "accesses-per-byte": "lines past an L1 for each byte",
    "traffic-per-byte": "lines of memory for each byte",
    "size-window": "blocks of 1 MiB and more, first come first served (autohbw)",
    DEVELOPER: "a developer's list",
    OURS: "least modelled time (optimum)",
    MOVING: "the same, objects moved between phases",
    BETWEEN_REGIONS: "the same, moved between marked regions only, as a plan can",
}
