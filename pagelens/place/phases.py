"""Divides a run into phases: the marked ones, divided further if a program turns to other objects.

Intervals of a marked phase that move similar lines of the same objects are one phase, wherever they lie in
the run, since the loops of a time step come again in every step. The grouping is average linkage over cosine
distances.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from pagelens.place.profile import Profile

OUTSIDE = "(outside regions)"  # the phase of what no marked region has (core/accesses/trace_walk.hpp)
LIKE = 0.15  # cosine distance: below it intervals move like lines
SMALL = 0.02  # of the run's lines: such a phase is counted with the marked phase's largest


@dataclass(frozen=True)
class Phases:
    """The names of the phases, and the index of its phase for each interval."""

    names: Sequence[str]
    of_interval: NDArray[np.intp]  # [i]


def find_phases(profile: Profile) -> Phases:
    """Return phases named `solve`, or `steps/1`, `steps/2` if one has several, in order of the run."""
    lines = profile.reads + profile.writes
    marked = np.array(profile.phases)
    label = np.zeros(len(marked), dtype=np.intp)
    names: list[str] = []
    for phase in dict.fromkeys(profile.phases):
        intervals = np.flatnonzero(marked == phase)
        groups = _alike(lines[intervals], SMALL * lines.sum())
        kinds = list(dict.fromkeys(groups.tolist()))
        for kind in kinds:
            label[intervals[groups == kind]] = len(names)
            names.append(phase if len(kinds) == 1 else f"{phase}/{kinds.index(kind) + 1}")
    return Phases(names, label)


def marked_phases(profile: Profile) -> Phases:
    """Return the marked regions, which are all that a program says natively, and what lies before the first.

    What follows a region, outside of all regions, belongs to it, because the end of a region moves nothing
    (preload/regions.c).
    """
    inside = [*profile.phases]
    for interval, name in enumerate(inside[1:], 1):
        if name == OUTSIDE:
            inside[interval] = inside[interval - 1]
    names = list(dict.fromkeys(inside))
    return Phases(names, np.array([names.index(name) for name in inside], dtype=np.intp))


def _alike(lines: NDArray[np.float64], small: float) -> NDArray[np.intp]:
    """Return a group number for each row [i]. Rows of similar direction have the same number."""
    groups = np.zeros(len(lines), dtype=np.intp)
    moving = np.flatnonzero(lines.sum(axis=1) > 0)
    if len(moving) > 1:
        groups[moving] = fcluster(linkage(lines[moving], "average", "cosine"), LIKE, "distance")
    weights = {kind: float(lines[groups == kind].sum()) for kind in set(groups.tolist())}
    largest = max(weights, key=weights.__getitem__)
    for kind, weight in weights.items():
        if weight < small:
            groups[groups == kind] = largest
    return groups
