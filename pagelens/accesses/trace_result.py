"""The result of a program under the tracer: which programs ran, and what their traces hold."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path

from pagelens.accesses.system_limits import limit_of_memory
from pagelens.accesses.trace_end import end_of_killed, remedy_of, state_end
from pagelens.accesses.traced_program import TracedProgram, estimate_accesses, ran_together
from pagelens.accesses.unsupported import Unsupported
from pagelens.errors import Failure, Interrupted
from pagelens.host.memory_kills import FullMemory


class NoTrace(Failure):
    """The program ran, and nothing of its trace could be written."""


@dataclass(slots=True)
class TraceResult:
    """How the run ended and what is in the file."""

    path: Path
    exit_status: int  # the program's exit status, or -n if signal n killed it
    complete: bool = False  # the tracer saw the end of the program
    accesses: int = 0
    instructions: int = 0
    total_instructions: int = 0
    untraced_children: dict[int, str] = field(default_factory=dict)  # process id: program
    unsupported: Unsupported | None = None  # the instruction that the emulator does not execute
    full_memory: FullMemory = FullMemory.NO  # whether the kernel killed a process meanwhile for that reason
    unseen_signal: int = signal.SIGKILL  # kills a process without the tracer's seeing it; 0: not known
    interrupted: bool = False  # Ctrl-C was pressed meanwhile, whatever the program made of it
    programs: list[TracedProgram] = field(default_factory=list)  # all that have a trace, in their order
    kept: TracedProgram | None = None  # the one whose trace is at `path`
    together: list[TracedProgram] = field(default_factory=list)  # several are kept (`keep_together`)
    cut_by: int = 0  # why the trace was cut (errno)
    engine_note: str | None = None  # says that the engine is not the one that the user wanted
    unfinished_lines: set[int] = field(default_factory=set)  # descriptors, 1 and 2, of the programs' output

    @property
    def share_seen(self) -> float | None:
        """The traced instructions over all that ran, or None if the tracer did not see the end."""
        return (
            self.instructions / self.total_instructions if self.complete and self.total_instructions else None
        )

    @property
    def busiest(self) -> TracedProgram | None:
        """The program with the most accesses."""
        return max(self.programs, key=lambda program: program.weight, default=None)

    def keep(self, program: TracedProgram) -> None:
        """Make `program` the one that the result describes."""
        self.kept, self.complete, self.cut_by = program, program.complete, program.error
        self.accesses, self.instructions = program.accesses, program.instructions
        self.total_instructions = program.total_instructions


def partial_of(path: Path) -> Path:
    """Return the name of a trace while it is written."""
    return path.with_name(path.name + ".partial")


def read_status(text: str, pid: int, result: TraceResult, began: bool = True) -> None:
    """Take in what the tracer reported (tracer/status.hpp). Traces of killed programs get their final names.

    Raises Failure, NoTrace if the trace could not be written, or Interrupted if the program did not get to
    run.
    """
    facts = [line.split(" ", 3) for line in text.split("\n") if line]
    programs, error = _programs(facts, result)
    if error is not None:
        _remove_partial(programs)
        raise Failure(f"tracing stopped: {error}")
    first = next((program for program in programs if program.process == pid), None)
    # Of a script, the programs that it starts are traced, where they were compiled for it.
    seen = any(program.complete for program in programs if first is None or program.process == pid)
    if not (began and (seen or any(partial_of(program.path).exists() for program in programs))):
        _remove_partial(programs)
        if result.interrupted:
            raise Interrupted("interrupted before the program began; nothing was traced")
        raise Failure(
            f"the engine ended with status {result.exit_status} before the program began; "
            f"see its message above{limit_of_memory()}"
        )
    for program in programs:
        if partial_of(program.path).exists() and _has_ended(program.process):
            program.path = partial_of(program.path).rename(program.path)
            program.ended = max(program.began, program.path.stat().st_mtime_ns)
            number = -result.exit_status if program.process == pid else result.unseen_signal
            if program.process != pid or number > 0:
                state_end(program.path, end_of_killed(number, result.full_memory, program.ended))
    estimate_accesses(programs)
    for program in programs:
        if program.error and not program.path.exists():
            reason = f"{os.strerror(program.error)}; {remedy_of(program.error)}"
            raise NoTrace(f"trace {program.path}: {reason}")
    result.programs = programs
    if first is not None:
        result.keep(first)


def _programs(facts: Sequence[Sequence[str]], result: TraceResult) -> tuple[list[TracedProgram], str | None]:
    """Return the programs that ran, and what stopped the tracer. All other facts go into the result."""
    programs: list[TracedProgram] = []
    running: dict[int, TracedProgram] = {}  # the last one of each process
    last_line: dict[int, tuple[int, bool]] = {}  # of each descriptor: when, and whether it is unfinished
    error = None
    for process_id, time, what, *rest in facts:
        process, now, details = int(process_id), int(time), " ".join(rest)
        if what == "begun":
            # All traces lie in one folder, which the tracer knows by its absolute path.
            parent, _, place = details.partition(" ")
            path = result.path.with_name(Path(place).name)
            running[process] = TracedProgram(process, path, began=now, parent=int(parent))
            programs.append(running[process])
            result.untraced_children.pop(process, None)  # a fork that executes a program
        elif what == "program":
            running[process].program = details
        elif what == "finished":
            program = running[process]
            program.error, program.accesses, program.instructions, program.total_instructions = map(
                int, details.split()
            )
            program.complete, program.ended = True, now
        elif what == "made":
            running[process].made.append((now, int(details)))
        elif what == "line":
            descriptor, written, unfinished = map(int, details.split())
            last_line[descriptor] = max(last_line.get(descriptor, (0, False)), (written, bool(unfinished)))
        elif what == "avx512":
            traced = running.get(process)
            result.unsupported = Unsupported.parse(details, traced.path if traced else None)
        elif what == "error":
            error = details
        elif what == "exec":
            result.untraced_children[process] = details
        elif what == "fork":
            result.untraced_children[process] = "a fork of the program"
    result.unfinished_lines = {descriptor for descriptor, (_, unfinished) in last_line.items() if unfinished}
    return programs, error


def _remove_partial(programs: Sequence[TracedProgram]) -> None:
    for program in programs:
        partial_of(program.path).unlink(missing_ok=True)


def _remove(program: TracedProgram) -> None:
    """Remove its trace, also if the process still runs: a helper of multiprocessing ends after its parent."""
    _remove_partial([program])
    program.path.unlink(missing_ok=True)


def keep_busiest(result: TraceResult) -> None:
    """Keep only the trace of the program with the most accesses, as `result.path`."""
    busiest = result.busiest
    if busiest is None or busiest.weight < (0, 0):
        return
    for program in result.programs:
        if program is not busiest:
            _remove(program)
    if busiest.path != result.path:
        busiest.path = busiest.path.rename(result.path)
    result.keep(busiest)


def keep_together(result: TraceResult) -> None:
    """Keep the traces of processes that ran together, as `path` with `.process-0` and so on; or the busiest.

    Those of an earlier run are removed.
    """
    result.together = ran_together(result.programs)
    if not result.together:
        return keep_busiest(result)
    stem = result.path.name.removesuffix(result.path.suffix)
    for old in result.path.parent.glob(f"{escape(stem)}.process-*{escape(result.path.suffix)}"):
        old.unlink()
    for program in result.programs:
        if program not in result.together:
            _remove(program)
    for number, program in enumerate(result.together):
        name = f"{stem}.process-{number}{result.path.suffix}"
        program.path = program.path.rename(result.path.with_name(name))
    busiest = max(result.together, key=lambda program: program.weight)
    result.keep(busiest)
    result.path = busiest.path
    return None


def _has_ended(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"
