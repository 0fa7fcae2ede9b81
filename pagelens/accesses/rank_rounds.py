"""Divides the run of a job into rounds: what its ranks do between two moments at which all of them meet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.machine.rank_load import RankLoad

Floats = NDArray[np.float64]
Counts = NDArray[np.uint64]
# Of `Survey.rounds`: the phase of each round, how many processes meet at its end, instructions, lines.
RoundsOfTrace = tuple[NDArray[np.uint32], NDArray[np.uint32], Counts, Counts]

_MET = -1  # at the end of a round, where the next phase would stand


@dataclass(frozen=True)
class CommonRounds:
    """The rounds of a job."""

    meeting: int  # how many processes a communicator of all ranks has; 0: they meet in no call
    meetings: int  # in collective calls
    phases: NDArray[np.int64]  # [round] the job's phase
    instructions: Floats  # [round, trace]
    lines: Floats  # [round, trace] past the tracer's filter


def common_rounds(traces: Sequence[tuple[RoundsOfTrace, Sequence[int]]]) -> CommonRounds:
    """Return the rounds of a job. Each trace has rounds of its own, and the job's number of each phase.

    All ranks meet where a collective call has the most processes of any, if these are no fewer than the
    traces. They also meet where a phase begins. A rank that ends early keeps nobody waiting. If the ranks
    come to different phases and meetings, they meet at phases alone, which the caller has compared.
    """
    most = max(int(rounds[1].max(initial=0)) for rounds, _ in traces)
    for meeting in [most, 0] if most >= max(2, len(traces)) else [0]:
        cut = [_cut(rounds, phases, meeting) for rounds, phases in traces]
        longest = max((ends for ends, *_ in cut), key=len)
        if all(np.array_equal(ends, longest[: len(ends)]) for ends, *_ in cut):
            break
    shape = len(longest) + 1, len(traces)
    instructions, lines = np.zeros(shape), np.zeros(shape)
    for number, (_, executed, moved) in enumerate(cut):
        instructions[: len(executed), number] = executed
        lines[: len(moved), number] = moved
    # A round that a meeting ends is followed by one of the same phase.
    phases = np.zeros(shape[0], dtype=np.int64)
    for place, end in enumerate(longest.tolist()):
        phases[place + 1] = phases[place] if end == _MET else end
    return CommonRounds(meeting, int((longest == _MET).sum()), phases, instructions, lines)


def rank_load(rounds: CommonRounds, phases: int, threads: Floats, copies: NDArray[np.int64]) -> RankLoad:
    """Return the load of a job whose traces have so many threads and stand for so many ranks.

    Rounds in which one rank has the most instructions and the most lines are added up, by rank. Whatever a
    line costs, that rank decides in all of them.
    """
    numbers = range(phases)
    instructions, lines = (
        _of_mean_core([counts[rounds.phases == phase] for phase in numbers], threads, copies)
        for counts in (rounds.instructions, rounds.lines)
    )
    merged = [_merged(*of_phase) for of_phase in zip(instructions, lines, strict=True)]
    return RankLoad([of_phase[0] for of_phase in merged], [of_phase[1] for of_phase in merged])


def _cut(
    rounds: RoundsOfTrace, phases: Sequence[int], meeting: int
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return what ends each common round but the last, and the instructions and lines of all of them.

    A round ends with the number of the phase that begins, if it is another one, or with `_MET`.
    """
    phase, met, executed, moved = rounds
    of_job = np.asarray(phases, dtype=np.int64)[phase]
    is_meeting = (met[:-1] == meeting) & (meeting != 0)
    ends = np.where(is_meeting, _MET, of_job[1:])
    is_end = is_meeting | ((met[:-1] == 0) & (of_job[1:] != of_job[:-1]))
    first = np.flatnonzero(np.concatenate([[True], is_end]))
    return (
        ends[is_end],
        np.add.reduceat(executed.astype(np.float64), first),
        np.add.reduceat(moved.astype(np.float64), first),
    )


def _of_mean_core(counts: Sequence[Floats], threads: Floats, copies: NDArray[np.int64]) -> list[Floats]:
    """Return the counts [phase] [round, trace] of a core of each rank, as multiples of the mean core's.

    That core's count is of the whole phase. In a phase without any count, all ranks are alike.
    """
    loads = []
    for of_phase in counts:
        mean = (of_phase.sum(axis=0) * copies).sum() / (threads * copies).sum()
        alike = np.full_like(of_phase, 1 / max(1, len(of_phase)))
        loads.append(of_phase / threads / mean if mean > 0 else alike)
    return loads


def _merged(instructions: Floats, lines: Floats) -> tuple[Floats, Floats]:
    """Add up the rounds [round, trace] in which one rank has the most of both, by rank."""
    most = (instructions == instructions.max(axis=1, keepdims=True)) & (
        lines == lines.max(axis=1, keepdims=True)
    )
    one, slowest = most.any(axis=1), most.argmax(axis=1)
    if one.sum() < 2:
        return instructions, lines
    parts = [one & (slowest == rank) for rank in np.unique(slowest[one])]

    def merged(counts: Floats) -> Floats:
        return np.concatenate([[counts[part].sum(axis=0) for part in parts], counts[~one]])

    return merged(instructions), merged(lines)
