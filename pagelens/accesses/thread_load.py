"""How unevenly the threads of a process are busy."""

from collections.abc import Sequence

import numpy as np

from pagelens._core import Survey
from pagelens.machine.rank_load import Floats, RankLoad


def thread_load(survey: Survey, cores: int, phases: Sequence[int] | None = None) -> RankLoad | None:
    """Return what each thread has to do in each phase, as multiples of the mean core's; None: there is one.

    Rounds are the parts of a phase in which equally many threads work, and threads take the place of ranks.
    In a part, threads wait for each other as the merged clock says, by instructions: the part is longer than
    what its busiest thread executes by this factor. `phases` may give the phases of the survey other numbers.
    """
    of_parts, clock, executed, lines = survey.thread_loads
    if not len(of_parts):
        return None
    numbers = np.arange(len(survey.phases)) if phases is None else np.asarray(phases)
    number_of_part, shape = numbers[of_parts], (len(of_parts), -1)
    work, moved = executed.reshape(shape).astype(np.float64), lines.reshape(shape).astype(np.float64)
    longer = clock / work.max(axis=1)

    def of_phases(counts: Floats) -> Sequence[Floats]:
        found = []
        for number in range(numbers.max() + 1):
            parts = number_of_part == number
            mean = counts[parts].sum() / cores
            if mean > 0:
                found.append(counts[parts] * longer[parts, None] / mean)
            else:  # a phase without any of these, in which all threads are alike
                found.append(np.full((max(1, parts.sum()), 1), 1 / max(1, parts.sum())))
        return found

    every = [moved[number_of_part == number] for number in range(numbers.max() + 1)]
    return RankLoad(of_phases(work), of_phases(moved), [shares_of_rounds(of_phase) for of_phase in every])


def shares_of_rounds(counts: Floats) -> Floats:
    """Return the share [round] of counts [round, rank]; rounds without any are alike."""
    of_round, rounds = counts.sum(axis=1), max(1, len(counts))
    return of_round / of_round.sum() if of_round.any() else np.full(rounds, 1 / rounds)


def working_cores(survey: Survey, cores: int, phases: Sequence[int]) -> tuple[Floats, Floats]:
    """Return how many of a process's `cores` work at a time in each of these phases, on average.

    The first array is by instructions, and the second by lines past the tracer's filter.
    """
    load = thread_load(survey, cores, phases)
    if load is None:
        alone = np.full(max(phases) + 1, float(cores))
        return alone, alone
    # Helpers share a core with other threads, so they make it no faster.
    by_instructions, by_lines = (cores / np.maximum(1, most) for most in load.most())
    return by_instructions, by_lines
