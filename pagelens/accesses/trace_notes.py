"""The messages to a user about a traced run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from pagelens._core import Trace
from pagelens.accesses.trace_end import killed_in_words, name_of_signal, remedy_of
from pagelens.accesses.trace_result import TraceResult
from pagelens.accesses.traced_program import FEW, TracedProgram, started_by
from pagelens.accesses.tracer import TraceRequest
from pagelens.host.memory_kills import FullMemory

_OF_FULL_MEMORY = {
    FullMemory.NO: "",
    FullMemory.PROBABLY: ", and the kernel killed a process of this computer because memory was full",
    FullMemory.YES: ", and the kernel killed a process of its cgroup because memory was full",
}


def nothing_traced(result: TraceResult, request: TraceRequest) -> str | None:
    """Return why a program that ran to its end has an empty trace, or None if the trace is not empty."""
    if not result.complete or result.accesses > 0:
        return None
    if request.region is not None:
        return f"--region {request.region}: the program never began it; its markers name the regions"
    if request.from_function is not None:
        return f"--from-function {request.from_function}: the program never called it"
    return f"--skip {request.skip}: the program made fewer accesses"


def describe(result: TraceResult, request: TraceRequest) -> Iterator[str]:
    """Yield one line for each thing that the user should know of the run."""
    if result.engine_note is not None:
        yield result.engine_note
    yield from describe_end(result, request)
    share = result.share_seen or 0
    # Accesses made while a thread waits for other processes do not count.
    if result.complete and request.accesses and result.accesses >= request.accesses and share < 1:
        yield (
            f"the budget of {request.accesses:,} accesses was used up: {result.path} holds {share:.1%} of "
            "the program's instructions; --accesses N sets the budget, 0 is none"
        )
    if result.cut_by:
        yield (
            f"{os.strerror(result.cut_by)}: {result.path} holds {share:.1%} of the program's instructions; "
            f"{remedy_of(result.cut_by)}"
        )
    if (why := nothing_traced(result, request)) is not None:
        yield f"{why}; {result.path} holds no accesses"
    if request.follow_exec is None and (line := _left_out(result)) is not None:
        yield line
    if result.untraced_children and not request.follow_exec:
        named = [f"{what} (process {process})" for process, what in result.untraced_children.items()]
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        yield f"not traced: {', '.join(named[:3])}{more}; --follow-exec traces children"


# How the names of programs begin that start the ranks of a job.
LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun", "srun")


def _left_out(result: TraceResult) -> str | None:
    """Return a line if others than the first program made the most accesses, or a share that counts.

    Another one says which processes are explained together.
    """
    kept, made = result.kept, sum(program.accesses for program in result.programs)
    if kept is not None and result.together:
        its = sum(program.accesses for program in result.together)
        return (
            f"{len(result.together)} processes of {Path(kept.program).name} ran side by side, and are "
            f"explained as the ranks of one job; they made {its / made:.0%} of all accesses of the program "
            f"and its children{_of_starters(result, kept)}{_of_killed(result)}"
        )
    if kept is None or (kept is result.programs[0] and kept.accesses >= (1 - FEW) * made):
        return None
    share = f" ({kept.accesses / made:.0%})" if made else ""
    launcher = Path(result.programs[0].program).name
    if launcher.startswith(LAUNCHERS):
        return (
            f"{result.path} is the trace of one rank of {Path(kept.program).name}, which made the most "
            f"accesses{share}; for one report of all ranks, put pagelens behind the launcher: {launcher} ... "
            "pagelens explain -- ./app"
        )
    return (
        f"{result.path} is the trace of {Path(kept.program).name}, which made the most accesses{share} of "
        f"the {len(result.programs)} processes and programs that ran; --follow-exec keeps a trace of each, "
        "and explain takes several traces"
    )


def _of_starters(result: TraceResult, kept: TracedProgram) -> str:
    waited = [
        program
        for program in result.programs
        if program.program == kept.program
        and program not in result.together
        and program.accesses >= FEW * kept.accesses
        and started_by(program, result.programs, result.together)
    ]
    if not waited:
        return ""
    if len(waited) == 1:
        return "; the process that started them did little meanwhile, and is left out"
    return f"; {len(waited)} processes that started others did little meanwhile, and are left out"


def _of_killed(result: TraceResult) -> str:
    killed = [
        f"; rank {rank} {killed_in_words(Trace(program.path))}"
        for rank, program in enumerate(result.together)
        if program.was_killed
    ]
    return "".join(killed)


def refused_instruction(result: TraceResult, request: TraceRequest) -> str | None:
    """Return which instruction the engine did not execute, so that the program died of it, or None."""
    if result.exit_status != -signal.SIGILL or result.unsupported is None:
        return None
    return (
        f"{request.command[0]} has {result.unsupported}, which QEMU does not execute; let DynamoRIO run it "
        "(make engine in a clone of pagelens builds it), or compile it with -march=x86-64-v3"
    )


def nothing_to_explain(result: TraceResult, request: TraceRequest) -> str | None:
    """Return why a trace says nothing of its program's run, or None if it does."""
    budget_used = 0 < request.accesses <= result.accesses
    if not budget_used and (why := refused_instruction(result, request)) is not None:
        return why
    why = nothing_traced(result, request)
    return why and f"{why}; there is nothing to explain"


def describe_end(result: TraceResult, request: TraceRequest) -> Iterator[str]:
    """Yield a line if a signal ended the program."""
    if (why := refused_instruction(result, request)) is not None:
        yield why
    elif result.exit_status < 0:
        name = name_of_signal(-result.exit_status)
        held = "what it did until then" if result.complete else "what had been written by then, not the last"
        full = _OF_FULL_MEMORY[result.full_memory]
        yield f"{request.command[0]} was killed by {name}{full}; {result.path} holds {held}"


def end_lines(result: TraceResult, stdout: bool = False) -> None:
    """Begin a new line before a message if the program left its last line unfinished.

    With `stdout` the message may be on standard output, too.
    """
    unfinished = result.unfinished_lines
    if 2 in unfinished:
        print(file=sys.stderr, flush=True)
    try:
        same = os.path.sameopenfile(1, 2)
    except OSError:  # one of them is closed
        same = False
    if stdout and 1 in unfinished and not (same and 2 in unfinished):
        print(flush=True)
    result.unfinished_lines = unfinished - ({1, 2} if stdout or same else {2})
