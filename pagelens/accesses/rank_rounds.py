"""Divides the run of a job into rounds: what its ranks do between two moments at which all of them meet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pagelens._core import LEFT_OUT, RankPaths, RankSegments
from pagelens.accesses.rank_meetings import RankPlaces, meetings_before, of_some, processes_of
from pagelens.accesses.thread_load import shares_of_rounds
from pagelens.machine.rank_load import RankLoad

Floats = NDArray[np.float64]
Counts = NDArray[np.uint64]
# Of `Survey.rounds`: the phase of each part, what ends it, instructions, lines. A part ends where all
# processes meet, or some of them (core/accesses/meeting.hpp).
RoundsOfTrace = tuple[NDArray[np.uint32], Counts, Counts, Counts]

# The longest path may be so much longer than the one that is taken, for some costs of lines.
PATH_TOLERANCE = 1e-4

Ends = NDArray[np.int64]  # of rounds: the phase that begins, or -1 - how often all had met before


@dataclass(frozen=True)
class CommonRounds:
    """The rounds of a job."""

    meeting: int  # how many processes a communicator of all ranks has; 0: they meet in no call
    meetings: int  # in collective calls
    phases: NDArray[np.int64]  # [round] the job's phase
    instructions: Floats  # [round, trace]
    lines: Floats  # [round, trace] past the tracer's filter
    of_parts: list[NDArray[np.uint32]]  # [trace] the round of each part
    # [round] whether ranks wait for some of the others in it
    has_waits: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @property
    def first(self) -> list[int]:
        """Return the round in which each trace begins."""
        return [int(parts[0]) for parts in self.of_parts]

    @property
    def last(self) -> list[int]:
        """Return the round in which each trace ends."""
        return [int(parts[-1]) for parts in self.of_parts]

    def known(self, is_cut: Sequence[bool]) -> list[tuple[int, int]]:
        """Return the rounds, and the one behind them, in which it is known whether each rank waits.

        Those in which a trace begins late, ends early or is cut have only a part of the rank's work.
        """
        count = len(self.phases)
        return [
            (first + 1 if first else 0, last if cut or last + 1 < count else count)
            for first, last, cut in zip(self.first, self.last, is_cut, strict=True)
        ]


def common_rounds(traces: Sequence[tuple[RoundsOfTrace, Sequence[int]]]) -> CommonRounds:
    """Return the rounds of a job. Each trace has rounds of its own, and the job's number of each phase.

    All ranks meet where a collective call has the most processes of any, if these are no fewer than the
    traces. They also meet where a phase begins. A rank that ends early keeps nobody waiting. If the ranks
    come to different phases and meetings, they meet at phases alone, which the caller has compared. A trace
    may begin late; where, its meetings say.
    """
    most = max(int(processes_of(rounds[1]).max(initial=0)) for rounds, _ in traces)
    for meeting in [most, 0] if most >= max(2, len(traces)) else [0]:
        cut = [_cut(rounds, phases, meeting) for rounds, phases in traces]
        aligned = _aligned([ends for ends, *_ in cut])
        if aligned is not None:
            break
    longest, begins = aligned or (max((ends for ends, *_ in cut), key=len), [0] * len(cut))
    shape = len(longest) + 1, len(traces)
    instructions, lines = np.zeros(shape), np.zeros(shape)
    has_waits = np.zeros(shape[0], dtype=np.bool_)
    of_all_parts = []
    for number, (_, of_parts, executed, moved) in enumerate(cut):
        first = begins[number]
        of_all_parts.append(of_parts + np.uint32(first))
        instructions[first : first + len(executed), number] = executed
        lines[first : first + len(moved), number] = moved
        has_waits[of_all_parts[-1][of_some(traces[number][0][1])]] = True
    # A round that a meeting ends is followed by one of the same phase.
    phases = np.zeros(shape[0], dtype=np.int64)
    for place, end in enumerate(longest.tolist()):
        phases[place + 1] = phases[place] if end < 0 else end
    met = int((longest < 0).sum())
    return CommonRounds(meeting, met, phases, instructions, lines, of_all_parts, has_waits)


def _aligned(traces: Sequence[Ends]) -> tuple[Ends, list[int]] | None:
    """Return the ends of the job's rounds, and the round in which each trace begins; None: they differ."""

    def met_first(number: int) -> float:
        meetings = traces[number][traces[number] < 0]
        return float(-meetings[0]) if len(meetings) else np.inf

    job: Ends = np.zeros(0, dtype=np.int64)
    begins = [0] * len(traces)
    for number in sorted(range(len(traces)), key=met_first):
        ends = traces[number]
        if len(job) and np.isfinite(met_first(number)):
            place = int((ends < 0).argmax())
            same = np.flatnonzero(job == ends[place])
            if not len(same) or same[0] < place:
                return None
            begins[number] = int(same[0]) - place
        common = min(len(job) - begins[number], len(ends))
        if not np.array_equal(job[begins[number] :][:common], ends[:common]):
            return None
        job = np.concatenate([job, ends[common:]])
    return job, begins


@dataclass(frozen=True)
class _Loads:
    """What the cores of each rank do, as multiples of a mean core's: [phase] arrays [round, trace]."""

    instructions: list[Floats]
    lines: list[Floats]
    means: tuple[Floats, Floats]  # [phase] instructions and lines of a mean core
    has_waits: list[NDArray[np.bool_]]  # [phase] of each round
    paths: RankPaths | None  # through the rounds in which ranks wait for some of the others


@dataclass(frozen=True)
class JobRounds:
    """The rounds of a job whose traces have so many threads and stand for so many ranks.

    Rounds in which ranks wait for some of the others take as long as the longest of `paths`, which is given
    the instructions and lines [phase] of a mean core. `working` says how many of a trace's threads work at a
    time, by instructions and by lines: arrays [phase, trace].
    """

    rounds: CommonRounds
    phases: int
    threads: Floats
    working: tuple[Floats, Floats]
    copies: NDArray[np.int64]
    paths: Callable[[Floats, Floats], RankPaths] | None = None
    known: Sequence[tuple[int, int]] | None = None  # `CommonRounds.known`; None: all are

    @cached_property
    def _loads(self) -> _Loads:
        of_phases = [self.rounds.phases == phase for phase in range(self.phases)]
        means, loads = [], []
        for counts, working in zip((self.rounds.instructions, self.rounds.lines), self.working, strict=True):
            of_phase = [counts[rows] for rows in of_phases]
            mean = np.array([_of_core(count, self.threads, self.copies) for count in of_phase])
            means.append(mean)
            loads.append([_multiples(c, w, m) for c, w, m in zip(of_phase, working, mean, strict=True)])
        has_waits = [self.rounds.has_waits[rows] for rows in of_phases]
        has_paths = self.paths is not None and self.rounds.has_waits.any()
        paths = self.paths(*means) if self.paths is not None and has_paths else None
        return _Loads(loads[0], loads[1], (means[0], means[1]), has_waits, paths)

    def load(self) -> RankLoad:
        """Return how unevenly the ranks are busy.

        Rounds in which one rank has the most instructions and the most lines are added up, by rank. Whatever
        a line costs, that rank decides in all of them.
        """
        of = self._loads
        found = []
        for phase, has_waits in enumerate(of.has_waits):
            shares = shares_of_rounds(self.rounds.lines[self.rounds.phases == phase] * self.copies)
            free = ~has_waits
            each = _merged(of.instructions[phase][free], of.lines[phase][free], shares[free])
            if of.paths is not None and has_waits.any():
                # In a phase without instructions or without lines, all ranks are alike.
                alike = [has_waits.mean() if mean[phase] == 0 else 0.0 for mean in of.means]
                longest = np.array(of.paths.longest(phase, PATH_TOLERANCE)).T
                each = (
                    _with_round(each[0], longest[0] + alike[0]),
                    _with_round(each[1], longest[1] + alike[1]),
                    np.append(each[2], shares[has_waits].sum()),
                )
            found.append(each)
        return RankLoad(*([of_phase[part] for of_phase in found] for part in range(3)))

    def waits(self, issue: Floats, stalls: Floats) -> Floats:
        """Return how long each rank waits for each other one, given the seconds [phase] of a mean core."""
        of, ranks = self._loads, len(self.threads)
        waited = np.zeros((ranks, ranks))
        is_known = np.ones(self.rounds.instructions.shape, dtype=np.bool_)
        for rank, (first, end) in enumerate(self.known or []):
            is_known[:first, rank] = is_known[end:, rank] = False
        for phase, has_waits in enumerate(of.has_waits):
            judged = is_known[self.rounds.phases == phase][~has_waits]
            rows = [counts[phase][~has_waits] for counts in (of.instructions, of.lines)]
            seconds = issue[phase] * rows[0] + stalls[phase] * rows[1]
            for slowest in range(ranks):
                where = seconds.argmax(axis=1) == slowest
                waited[:, slowest] += ((seconds[where, slowest, None] - seconds[where]) * judged[where]).sum(
                    axis=0
                )
            if of.paths is not None and has_waits.any():
                waited += np.reshape(of.paths.waits(phase, issue[phase], stalls[phase]), waited.shape)
        return waited


def waiting_paths(
    rounds: CommonRounds,
    parts: Sequence[RoundsOfTrace],
    places: Sequence[RankPlaces],
    working: tuple[Floats, Floats],
    instructions: Floats,
    lines: Floats,
    known_rounds: Sequence[tuple[int, int]],
) -> RankPaths:
    """Return the paths through the rounds in which ranks wait for some of the others.

    Their instructions and lines are multiples of those [phase] of a mean core. `working` is that of
    `JobRounds`.
    """

    def multiples(counts: Counts, phase: NDArray[np.int64], of_core: Floats, cores: Floats) -> Floats:
        mean = of_core[phase]
        return np.divide(counts / cores[phase], mean, out=np.zeros(len(counts)), where=mean > 0)

    ranks = []
    for of_parts, (_, meetings, executed, moved), known, trace, (first, end) in zip(
        rounds.of_parts, parts, places, range(len(parts)), known_rounds, strict=True
    ):
        phase = rounds.phases[of_parts]
        ranks.append(
            RankSegments(
                of_parts,
                meetings,
                multiples(executed, phase, instructions, working[0][:, trace]),
                multiples(moved, phase, lines, working[1][:, trace]),
                known.of_job,
                known.first_turns,
                first,
                end,
            )
        )
    return RankPaths(ranks, np.where(rounds.has_waits, rounds.phases, LEFT_OUT).astype(np.uint32))


def _cut(
    rounds: RoundsOfTrace, phases: Sequence[int], meeting: int
) -> tuple[Ends, NDArray[np.uint32], Floats, Floats]:
    """Return what ends each common round but the last, the round of each part, and what the rounds have.

    A round ends where another phase begins, or where all meet.
    """
    phase, met, executed, moved = rounds
    of_job = np.asarray(phases, dtype=np.int64)[phase]
    is_meeting = (processes_of(met[:-1]) == meeting) & (meeting != 0)
    before = meetings_before(met[:-1])
    if not before[is_meeting].any():  # an older version did not number them
        before = np.cumsum(is_meeting) - 1
    ends = np.where(is_meeting, -1 - before, of_job[1:])
    is_end = is_meeting | ((met[:-1] == 0) & (of_job[1:] != of_job[:-1]))
    first = np.flatnonzero(np.concatenate([[True], is_end]))
    return (
        ends[is_end],
        np.concatenate([[0], np.cumsum(is_end)]).astype(np.uint32),
        np.add.reduceat(executed.astype(np.float64), first),
        np.add.reduceat(moved.astype(np.float64), first),
    )


def _of_core(counts: Floats, threads: Floats, copies: NDArray[np.int64]) -> float:
    """Return the mean count of a core, given the counts [round, trace] of a phase."""
    return float((counts.sum(axis=0) * copies).sum() / (threads * copies).sum())


def _multiples(counts: Floats, working: Floats, mean: float) -> Floats:
    """Return the counts [round, trace] of a working core of each rank, as multiples of the mean core's.

    That core's count is of the whole phase. In a phase without any count, all ranks are alike.
    """
    return counts / working / mean if mean > 0 else np.full_like(counts, 1 / max(1, len(counts)))


def _with_round(loads: Floats, others: Floats) -> Floats:
    """Add a round. It takes as long as the longest of these others, in place of the ranks."""
    found = np.zeros((len(loads) + 1, max(loads.shape[1], len(others))))
    found[:-1, : loads.shape[1]] = loads
    found[-1, : len(others)] = others
    return found


def _merged(instructions: Floats, lines: Floats, shares: Floats) -> tuple[Floats, Floats, Floats]:
    """Add up the rounds [round, trace] in which one rank has the most of both, by rank, and their shares."""
    most = (instructions == instructions.max(axis=1, keepdims=True)) & (
        lines == lines.max(axis=1, keepdims=True)
    )
    one, slowest = most.any(axis=1), most.argmax(axis=1)
    if one.sum() < 2:
        return instructions, lines, shares
    parts = [one & (slowest == rank) for rank in np.unique(slowest[one])]

    def merged(counts: Floats) -> Floats:
        return np.concatenate([[counts[part].sum(axis=0) for part in parts], counts[~one]])

    return merged(instructions), merged(lines), merged(shares)
