"""Where ranks of a job wait for some of the others: for messages, and in collective calls of some ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Packed = NDArray[np.uint64]
Names = Sequence[tuple[int, str]]

NOWHERE = (1 << 32) - 1  # core/accesses/meeting_places.hpp
# Numbers of places that a trace may use. They ascend from 1 on, so others are of a damaged trace.
MOST_PLACES = 1 << 22
_OF_SOME, _WAITS, _COMES = (np.uint64(1 << bit) for bit in (63, 62, 61))  # core/accesses/meeting.hpp
_TURNS = np.uint64((1 << 28) - 1)


@dataclass(frozen=True)
class RankPlaces:
    """The places of a trace: their numbers in the job, and the turn of its first coming to each."""

    of_job: list[int]
    first_turns: list[int]


def of_some(meetings: Packed) -> NDArray[np.bool_]:
    """Return which of these are packed meetings of some ranks (core/accesses/meeting.hpp)."""
    return np.asarray((meetings & _OF_SOME) != 0, dtype=np.bool_)


def of_all(meetings: Packed) -> Packed:
    """Return those that are numbers of processes."""
    return meetings[~of_some(meetings)]


def waits(meetings: Packed) -> int:
    """Return at how many of these a rank waits for some of the others."""
    return int((of_some(meetings) & ((meetings & _WAITS) != 0)).sum())


def united_places(traces: Sequence[tuple[Packed, Names]]) -> list[RankPlaces]:
    """Return the places of each trace, given its meetings and the names of its places.

    Places of one name are one place of the job.
    """
    index: dict[str, int] = {}
    found = []
    for meetings, names in traces:
        known = [(number, name) for number, name in names if number < MOST_PLACES]
        of_job = np.full(1 + max((number for number, _ in known), default=0), NOWHERE, dtype=np.int64)
        for number, name in known:
            of_job[number] = index.setdefault(name, len(index))
        first = np.full(len(of_job), NOWHERE, dtype=np.int64)
        came = meetings[of_some(meetings) & ((meetings & _COMES) != 0)]
        places, turns = (came & np.uint64(0xFFFF_FFFF)).astype(np.int64), (came >> np.uint64(32)) & _TURNS
        is_known = places < len(of_job)
        np.minimum.at(first, places[is_known], turns[is_known].astype(np.int64))
        found.append(RankPlaces(of_job.tolist(), first.tolist()))
    return found
