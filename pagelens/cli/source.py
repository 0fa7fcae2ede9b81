"""Finds what the user wants explained: a declared workload, a trace, or a program to trace first."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pagelens.accesses import (
    CutOf,
    JobWorkload,
    NoTrace,
    TraceRequest,
    Workload,
    await_traces,
    begin_trace,
    describe,
    describe_end,
    end_lines,
    is_trace,
    launch_began,
    nothing_to_explain,
    path_of_rank,
    trace_program,
)
from pagelens.api import Declared, check_ranks, fill_node, sharing_cores, trace, traces
from pagelens.ensemble import Scaled, scale_to
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.host import LaunchedRank
from pagelens.machine import Chosen, Machine
from pagelens.output_directory import claim_directory
from pagelens.progress import progress_bar
from pagelens.units import format_time, parse_size

OUTPUT = Path("pagelens-out")


@dataclass(frozen=True)
class Source:
    """A program, how its copies fill a node, and where results go."""

    program: Workload
    scaled: Scaled
    directory: Path
    share: float = 1.0  # of the accesses of all programs that were traced together


def choose_source(
    purpose: str,
    request: TraceRequest,
    workload: str | None,
    size: str | None,
    machine: Machine,
    ranks: int | None,
    full_size: str | None,
    output: Path | None,
    quiet: bool,
    cut_of: CutOf | None = None,
    rank: LaunchedRank | None = None,
    is_here: bool = False,
    smallest: Machine | None = None,
) -> AbstractContextManager[Source]:
    """Return declared loops if they are named, else the trace or program that the request names.

    `cut_of` is that of `open_trace`. With a `rank`, the program is that of its job on this node. If the
    machine `is_here`, the user named none, and the job may have more threads than it has cores. Of several
    machines, the `smallest` decides whether processes that ran side by side are explained as a job. Raises
    UsageError if both or none are given ("nothing to `purpose`"), and for options that belong to the other
    one.
    """
    target = request.command
    if workload is not None:
        _refuse("--workload", {"a program or trace": target, "--full-size": full_size})
        return declare(workload, size, machine, ranks, output)
    if not target:
        raise UsageError(
            f"nothing to {purpose}; give a trace, '-- PROGRAM ARGS...' or --workload NAME --size SIZE"
        )
    _refuse("a program or trace", {"--size": size})
    return trace_or_open(
        target, machine, ranks, full_size, output, request, quiet, cut_of, rank, is_here, smallest
    )


def _refuse(what: str, others: Mapping[str, object]) -> None:
    """Raise UsageError if any of `others` is given beside `what`."""
    for name, value in others.items():
        if value:
            raise UsageError(f"{name}: cannot stand beside {what}; leave one out")


def name_of_declared(name: str, size: str | None) -> str:
    """Return the name of the folder for a declared workload of this size."""
    return f"{name}-{''.join((size or '').split())}"


@contextmanager
def declare(
    name: str, size: str | None, machine: Machine, ranks: int | None, output: Path | None
) -> Iterator[Source]:
    """Yield a declared workload of `size` on the whole node, divided among the ranks (one by default).

    While the context is entered, the directory of the results is this process's alone.
    """
    if size is None:
        raise UsageError(f"--size: is missing; say how much memory '{name}' has on a node, as --size 17.6GB")
    program, copies = fill_node(Declared(name, parse_size(size, "--size")), machine, ranks, "--ranks")
    with claim_directory(output or OUTPUT / name_of_declared(name, size)) as directory:
        yield Source(program, Scaled(machine, copies), directory)


@contextmanager
def trace_or_open(
    target: Sequence[str],
    machine: Machine,
    ranks: int | None,
    full_size: str | None,
    output: Path | None,
    request: TraceRequest,
    quiet: bool,
    cut_of: CutOf | None = None,
    rank: LaunchedRank | None = None,
    is_here: bool = False,
    smallest: Machine | None = None,
) -> Iterator[Source]:
    """Yield the trace or traces that `target` names, else its program, traced as `request` says.

    A new trace is kept in the directory of the results. While the context is entered, that directory is this
    process's alone. The progress of the tracing is shown on a terminal, unless `quiet`. `cut_of`, `is_here`
    and `smallest` are those of `choose_source`.
    """
    path = Path(target[0])
    if is_trace(path):
        opened = _opened(target, cut_of, machine, quiet)
        with claim_directory(output or OUTPUT / opened.name) as directory:
            yield _fill(*_fitted(opened, machine, is_here and ranks is None), ranks, full_size, directory)
        return
    check_ranks(ranks or 1, machine, 1, "--ranks")  # before the program runs, which takes long
    try:
        str(path.resolve()).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"program {str(path)!a}: its path is no text in UTF-8; copy it to one that is"
        ) from None
    name = name_of(path)
    with claim_directory(output or OUTPUT / name) as directory:
        if rank is not None:
            job = _job(request, directory, name, rank, machine, quiet)
            yield _fill(*_fitted(job, machine, is_here and ranks is None), ranks, full_size, directory)
            return
        paths, share = _trace(request, directory / f"{name}.trace", quiet)
        if len(paths) == 1:
            alone = trace(paths[0], cut_of, machine, not quiet)
            found = _fill(*_fitted(alone, machine, is_here and ranks is None), ranks, full_size, directory)
            yield replace(found, share=share)
            return
        together = traces(paths, machine, progress=not quiet)
        program, larger = job_or_busiest(together, smallest or machine, is_here)
        yield _fill(program, larger if is_here else machine, ranks, full_size, directory)


def name_of(program: Path) -> str:
    """Return the name of a program, which may have bytes that no line of text can hold."""
    return "".join(character if character.isprintable() else "_" for character in program.name)


@contextmanager
def refused_once(rank: LaunchedRank | None) -> Iterator[None]:
    """Leave it to the rank that reports to say what all ranks of a job refuse.

    All of them have to end: MPICH's launcher waits for the others of a rank that ended before `MPI_Init`.
    """
    try:
        yield
    except UsageError:
        if rank is None or rank.reports:
            raise
        raise SystemExit(2) from None


def check_cores(rank: LaunchedRank, chosen: Chosen) -> None:
    """Raise UsageError if the ranks of this node are more than the cores of the machine.

    This computer is refused only where `with_room` could not give it more.
    """
    machine = chosen.machine
    cores = machine.cores.count.value
    if rank.ranks_on_node <= cores or (chosen.is_here and _with_cores(machine, rank.ranks_on_node)):
        return
    raise UsageError(
        f"--machine: the {rank.ranks_on_node} ranks of this node are more than the {cores} cores of "
        f"{machine.name}; name a machine that has them"
    )


def trace_for_job(request: TraceRequest, output: Path | None, rank: LaunchedRank) -> None:
    """Trace the program of a rank that does not report, where the one that does will look for it."""
    name = name_of(Path(request.command[0]))
    with begin_trace(output or OUTPUT / name, name, rank) as path:
        request = replace(request, output=str(path))
        try:
            result = trace_program(request)
        except NoTrace as error:
            _do_without(path, rank, error)
            return
    for line in describe_end(result, request):
        print(f"pagelens: rank {rank.number}: {line}", file=sys.stderr)


def _job(
    request: TraceRequest, directory: Path, name: str, rank: LaunchedRank, machine: Machine, quiet: bool
) -> JobWorkload:
    """Trace this rank's program, and return the job of all ranks of the node whose traces come."""
    since = launch_began(directory)
    with begin_trace(directory, name, rank) as path:
        try:
            _trace(request, path, quiet, of_job=True)
        except NoTrace as error:
            _do_without(path, rank, error)
    every = [path_of_rank(directory, name, other) for other in range(rank.ranks_on_node)]
    come = [path for path in await_traces(every, since, tell=_say_who_runs) if path.stat().st_size]
    if missing := [str(number) for number, path in enumerate(every) if path not in come]:
        print(
            f"pagelens: no trace came of rank {', '.join(missing)} of this node; the others are explained",
            file=sys.stderr,
        )
    found = []
    for path in come:
        try:
            found.append(trace(path, machine=machine, progress=not quiet))
        except Failure as error:  # such as a rank that was killed before it wrote anything
            print(f"pagelens: {error}; the other ranks are explained", file=sys.stderr)
    if not found:
        raise Failure("no rank of this node has a trace with accesses; there is nothing to explain")
    return JobWorkload(found)


def job_or_busiest(job: JobWorkload, machine: Machine, is_here: bool) -> tuple[Workload, Machine]:
    """Return the job and a machine with a core for each of its threads, or the busiest process alone."""
    _, machine = _fitted(job, machine, is_here)
    if job.threads <= machine.cores.count.value:
        return job, machine
    busiest = max(job.traces, key=lambda of: sum(of.survey.instructions))
    print(
        f"pagelens: the processes have {job.threads} working threads in all, more than the "
        f"{machine.cores.count.value} cores of {machine.name}; the busiest one is explained alone: "
        f"{busiest.path}",
        file=sys.stderr,
    )
    return busiest, machine


def _fitted(program: Workload, machine: Machine, is_here: bool) -> tuple[Workload, Machine]:
    """Return the program with its helper threads on busy cores, if it has more threads than there are cores.

    If the machine `is_here`, return it with a core for each working thread, where it can have so many.
    """
    program = sharing_cores(program, machine)
    if is_here and isinstance(program, JobWorkload):
        machine, said = with_room(machine, program.threads)
        program.statements += said
    return program, machine


def with_room(machine: Machine, threads: int) -> tuple[Machine, list[str]]:
    """Return this computer with a core for each working thread, and what is to be said of that.

    Where its caches or NUMA nodes allow no such machine, it stays as it is.
    """
    cores = machine.cores.count.value
    larger = _with_cores(machine, threads) if threads > cores else None
    if larger is None:
        return machine, []
    return larger, [
        f"This computer has {cores} cores, and {threads} threads are at work in all. It is taken to have "
        f"{threads} cores, because the model gives each of them one; --machine names another machine."
    ]


def _with_cores(machine: Machine, count: int) -> Machine | None:
    try:
        return machine.with_values({"cores.count": count})
    except UsageError:
        return None


def _do_without(path: Path, rank: LaunchedRank, error: NoTrace) -> None:
    """Say why a rank has no trace, and let nobody wait for one. The ranks may have filled one disk."""
    print(f"pagelens: rank {rank.number}: {error}", file=sys.stderr)
    with suppress(OSError):  # where even an empty file has no room, the others wait for some time
        path.touch()


def _say_who_runs(ranks: list[int]) -> None:
    print(
        f"pagelens: rank {', '.join(map(str, ranks))} of this node still runs; its trace is awaited",
        file=sys.stderr,
    )


def _opened(target: Sequence[str], cut_of: CutOf | None, machine: Machine, quiet: bool) -> Workload:
    """Return a trace, or the job whose ranks several traces are of.

    The ranks are in the order of the numbers in their names, as a shell puts `app.10.trace` before
    `app.2.trace`. `cut_of` is that of a single trace.
    """
    if len(target) == 1:
        return trace(target[0], cut_of, machine, not quiet)
    for other in target[1:]:
        if not is_trace(Path(other)):
            raise UsageError(f"{target[0]}: is a trace, and {other} behind it is none; leave it out")
    in_order: list[str | os.PathLike[str]] = [*sorted(target, key=_numbers_apart)]
    job = traces(in_order, machine, progress=not quiet)
    if job.may_be_in_turn:
        print(
            f"pagelens: these {len(target)} traces are of different programs, and are taken to run side by "
            "side; if they ran one after another, explain each trace alone",
            file=sys.stderr,
        )
    return job


def check_side_by_side(program: Workload) -> None:
    """Raise UsageError for a job of traces whose programs ran one after another."""
    if isinstance(program, JobWorkload) and (gap := program.gap) is not None:
        before, after = (program.traces[number].path for number in (gap.before, gap.after))
        raise UsageError(
            f"{before} ended {format_time(gap.seconds, 2)} before {after} began, so these are no ranks of a "
            "job, which run side by side; explain each trace alone"
        )


def _numbers_apart(name: str) -> list[tuple[bool, int, str]]:
    """Return a key for names that sorts the numbers in them by value."""
    parts = re.split(r"(\d+)", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _fill(
    program: Workload, machine: Machine, ranks: int | None, full_size: str | None, directory: Path
) -> Source:
    """Return copies of the traced process on all cores of the machine, or as many as `ranks` says."""
    filled, copies = fill_node(program, machine, ranks, "--ranks")
    if full_size is None:
        return Source(filled, Scaled(machine, copies), directory)
    size = parse_size(full_size, "--full-size")
    return Source(filled, scale_to(machine, filled.footprint_bytes, size, copies), directory)


def _trace(request: TraceRequest, path: Path, quiet: bool, of_job: bool = False) -> tuple[list[Path], float]:
    """Trace the program, and return its trace, or those of processes that ran together, and their share.

    What the user should know of its run goes to standard error.

    Raises Failure if there is nothing to explain, but not of a job, which has other ranks.
    """
    request = replace(request, output=str(path))
    with progress_bar(quiet, "tracing") as progress:
        result = trace_program(request, progress.traced)
    notes = list(describe(result, request))
    if notes or result.interrupted or not quiet:
        end_lines(result, stdout=request.stdout is None)
    if result.interrupted:
        raise Interrupted(f"interrupted while tracing; {result.path} holds what the program did until then")
    kept = result.busiest if request.follow_exec else result.kept
    if not of_job:
        empty = kept is not None and kept.complete and kept.accesses == 0
        why = nothing_to_explain(result, request)
        if why is not None or empty:
            raise Failure(why or "no access was traced; there is nothing to explain")
    for line in notes:
        print(f"pagelens: {line}", file=sys.stderr)
    if result.together:
        return [program.path for program in result.together], 1.0
    if kept is None:
        return [result.path], 1.0
    if request.follow_exec and len(result.programs) > 1:
        print(
            f"pagelens: of {len(result.programs)} programs traced, the one with the most accesses is "
            f"explained: {Path(kept.program).name} ({kept.path})",
            file=sys.stderr,
        )
    return [kept.path], kept.accesses / max(1, sum(program.accesses for program in result.programs))
