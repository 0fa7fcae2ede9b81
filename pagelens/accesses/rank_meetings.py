"""Where ranks of a job wait for some of the others: for messages, and in collective calls of some ranks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Packed = NDArray[np.uint64]
Names = Sequence[tuple[int, str]]

NOWHERE = (1 << 32) - 1  # core/accesses/meeting_places.hpp
# Numbers of places that a trace may use. They ascend from 1 on, so others are of a damaged trace.
MOST_PLACES = 1 << 22
_OF_SOME, _WAITS, _COMES, _SENDS = (
    np.uint64(1 << bit) for bit in (63, 62, 61, 60)
)  # core/accesses/meeting.hpp
_TURNS = np.uint64((1 << 28) - 1)
_LOW = np.uint64((1 << 32) - 1)
# A place of this name says that the program has a communicator with such ranks (hooks/mpi_turns.c).
_STRANGERS = "ranks of another MPI_COMM_WORLD"


@dataclass(frozen=True)
class RankPlaces:
    """The places of a trace: their numbers in the job, and the turn of its first coming to each."""

    of_job: list[int]
    first_turns: list[int]


def of_some(meetings: Packed) -> NDArray[np.bool_]:
    """Return which of these are packed meetings of some ranks (core/accesses/meeting.hpp)."""
    return np.asarray((meetings & _OF_SOME) != 0, dtype=np.bool_)


def processes_of(meetings: Packed) -> Packed:
    """Return how many processes meet where all do; 0 elsewhere."""
    return np.where(of_some(meetings), np.uint64(0), meetings & _LOW)


def meetings_before(meetings: Packed) -> NDArray[np.int64]:
    """Return how often all had met before; traces of older versions do not say so, and have zeros."""
    return ((meetings >> np.uint64(32)) & _TURNS).astype(np.int64)


def ends_before_others(traces: Sequence[Packed], places: Sequence[RankPlaces]) -> list[bool]:
    """Return for which traces a rank waits there for a turn that its trace does not have any more.

    Waits of senders do not count, because a receive may come to a place without a turn.
    """
    last: list[dict[int, int]] = [{} for _ in traces]
    wanted: dict[int, int] = {}
    for meetings, known, turns in zip(traces, places, last, strict=True):
        some = meetings[of_some(meetings)]
        of_job = np.array(known.of_job, dtype=np.int64)
        numbers = (some & _LOW).astype(np.int64)
        numbers = np.where(numbers < len(of_job), of_job[np.minimum(numbers, len(of_job) - 1)], NOWHERE)
        comes, waits = (some & _COMES) != 0, ((some & _WAITS) != 0) & ((some & _SENDS) == 0)
        for place, turn, has_come, has_waited in zip(
            numbers.tolist(), meetings_before(some).tolist(), comes.tolist(), waits.tolist(), strict=True
        ):
            if has_come:
                turns[place] = max(turn, turns.get(place, -1))
            if has_waited:
                wanted[place] = max(turn, wanted.get(place, -1))
    return [any(turn < wanted.get(place, -1) for place, turn in turns.items()) for turns in last]


def _begins_late(meetings: Packed) -> bool:
    """Return whether the trace lacks the first turns of some place, or the first meetings of all ranks.

    A trace that has only first turns may begin late, too, at places that the rank had not used before.
    """
    some = of_some(meetings)
    known = some | (processes_of(meetings) > 1)
    places = np.where(some, (meetings & _LOW) + np.uint64(1), np.uint64(0))[known]
    names, numbers = np.unique(places, return_inverse=True)
    first = np.full(len(names), NOWHERE, dtype=np.int64)
    np.minimum.at(first, numbers, meetings_before(meetings[known]))
    return bool((first > 0).any())


def strangers_warning(names: Names) -> list[str]:
    """Say that messages of programs that the rank's program started or joined are left out, if it has any."""
    if all(name != _STRANGERS for _, name in names):
        return []
    return [
        f"A communicator has {_STRANGERS}, as after MPI_Comm_spawn or MPI_Comm_connect. They are not in the "
        "report, and waiting for their messages and collective calls takes no time here."
    ]


def never_come(traces: Sequence[tuple[Packed, Names]], ranks: Sequence[int]) -> list[bool]:
    """Return for which ranks another one waits where only these two meet, and they never come there.

    The name of such a place ends with both ranks and a tag (hooks/mpi_turns.c). They are ranks of
    MPI_COMM_WORLD. The traces of one of several computers have other numbers, and of these nothing is said.
    Nor is anything said of a trace that begins late, which may have come there before: its first turn at
    some place is not the first one.
    """
    came: list[set[str]] = []
    late: list[bool] = []
    missed: set[tuple[str, int]] = set()
    for (meetings, names), rank in zip(traces, ranks, strict=True):
        some = meetings[of_some(meetings)]
        comes, waits = (some & _COMES) != 0, ((some & _WAITS) != 0) & ((some & _SENDS) == 0)
        late.append(_begins_late(meetings))
        text = dict(names)
        came.append({text.get(number, "") for number in (some[comes] & _LOW).tolist()})
        for number in set((some[waits] & _LOW).tolist()):
            found = re.fullmatch(r"\S+ ([0-9]{1,9}) ([0-9]{1,9}) -?[0-9]+", text.get(number, ""))
            if found and int(found[2]) == rank:
                missed.add((found[0], int(found[1])))
    return [
        not begins_late and any(of == rank and place not in own for place, of in missed)
        for rank, own, begins_late in zip(ranks, came, late, strict=True)
    ]


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
        places, turns = (came & _LOW).astype(np.int64), meetings_before(came)
        is_known = places < len(of_job)
        np.minimum.at(first, places[is_known], turns[is_known])
        found.append(RankPlaces(of_job.tolist(), first.tolist()))
    return found
