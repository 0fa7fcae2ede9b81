"""The programs of one traced run, and which of them ran side by side, as the ranks of a job do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

FEW = 0.1  # of all accesses: so few of other processes change no conclusion


@dataclass(slots=True)
class TracedProgram:
    """One of the programs that ran. A process may execute several programs, one after another.

    Times are nanoseconds since 1970.
    """

    process: int
    path: Path  # the path of its trace
    program: str = ""
    complete: bool = False  # the tracer saw its end
    error: int = 0  # why the trace was cut, or could not be written (errno)
    accesses: int = 0  # of a program that was killed, an estimate
    instructions: int = 0
    total_instructions: int = 0
    began: int = 0
    ended: int | None = None  # None: not known; of a program that was killed, when its trace grew last
    made: list[tuple[int, int]] = field(default_factory=list)  # its accesses by then, at some of these times
    parent: int = 0  # the process that started this one

    @property
    def weight(self) -> tuple[int, int]:
        """The accesses and the bytes of the trace; (-1, -1) if there is no trace."""
        try:
            return self.accesses, self.path.stat().st_size
        except OSError:
            return -1, -1

    @property
    def was_killed(self) -> bool:
        """Whether it ended without the tracer's seeing it, and left a trace."""
        return not self.complete and self.ended is not None

    def accesses_beside(self, others: Sequence[TracedProgram]) -> int:
        """Return how many accesses it made from the first beginning to the last end of others, at most.

        A process says how many it has made before each fork and after each child that it waited for.
        """
        if not others:
            return self.accesses
        first = min(other.began for other in others)
        last = max(other.ended or other.began for other in others)
        before = max((of for when, of in self.made if when < first), default=0)
        after = min((of for when, of in self.made if when > last), default=self.accesses)
        return after - before


def estimate_accesses(programs: Sequence[TracedProgram]) -> None:
    """Give those that were killed as many accesses for each byte of their traces as the others made."""
    whole = [program.weight for program in programs if program.complete]
    bytes_of_whole = sum(size for _, size in whole)
    for program in programs:
        if program.was_killed and bytes_of_whole > 0:
            program.accesses = max(0, program.weight[1]) * sum(made for made, _ in whole) // bytes_of_whole


def ran_together(programs: Sequence[TracedProgram]) -> list[TracedProgram]:
    """Return the processes of the busiest one's program that ran side by side, if there are several.

    They are forks, or have executed that program anew, as Python's multiprocessing lets them ("spawn"). One
    with fewer than `FEW` of the accesses of the busiest is left out. Of one that started others of them,
    only those count that it made while they ran. If such a process made more before than all others, it is
    explained alone.
    """
    names: defaultdict[int, set[str]] = defaultdict(set)
    for program in programs:
        names[program.process].add(program.program)
    busiest = max(programs, key=lambda program: program.weight)
    named = [program for program in programs if program.program == busiest.program]
    first = min(named, key=lambda program: program.began)
    alike = [
        program
        for program in named
        if (program is first or len(names[program.process]) == 1) and program.ended is not None
    ]
    if busiest not in alike:
        return []
    made = {id(program): program.accesses_beside(started_by(program, programs, alike)) for program in alike}
    alike.sort(key=lambda program: (made[id(program)], program.weight), reverse=True)
    workers: list[TracedProgram] = []
    for program in alike:
        few = bool(workers) and made[id(program)] < FEW * made[id(workers[0])]
        if not few and all(_overlap(program, worker) for worker in workers):
            workers.append(program)
    theirs = sum(program.accesses for program in workers)
    if len(workers) < 2 or (busiest not in workers and busiest.accesses > theirs):
        return []
    return sorted(workers, key=lambda program: program.began)


def started_by(
    starter: TracedProgram, programs: Sequence[TracedProgram], among: Sequence[TracedProgram]
) -> list[TracedProgram]:
    """Return those among some programs whose processes this one started, or others that it started."""
    parents = {program.process: program.parent for program in programs}
    first = programs[0].process

    def descends(process: int) -> bool:
        seen = {process}
        while (
            process := parents.get(process, first)
        ) not in seen:  # whose parent ended first has another one
            if process == starter.process:
                return True
            seen.add(process)
        return False

    return [other for other in among if other.process != starter.process and descends(other.process)]


def _overlap(one: TracedProgram, other: TracedProgram) -> bool:
    assert one.ended is not None
    assert other.ended is not None
    return one.began < other.ended and other.began < one.ended
