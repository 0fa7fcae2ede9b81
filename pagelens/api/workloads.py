"""Workloads: declared loops, traces, and programs that are traced now."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pagelens.accesses.declared import REPEATS, declared
from pagelens.accesses.import_trace import import_file
from pagelens.accesses.importer import Importer
from pagelens.accesses.importers import find_importer
from pagelens.accesses.job import JobWorkload
from pagelens.accesses.trace import CutOf, TraceWorkload, open_trace
from pagelens.accesses.trace_notes import nothing_to_explain
from pagelens.accesses.tracer import DEFAULT_BUDGET, TraceRequest, trace_program
from pagelens.accesses.workload import Workload
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.machine import Machine
from pagelens.progress import progress_bar
from pagelens.replay import asked_first
from pagelens.units import parse_size


@dataclass(frozen=True)
class Declared:
    """Loops of a known program at a stated size. The machine that they run on decides their threads."""

    name: str
    size_bytes: int  # the memory of all ranks of a node together
    repeats: int = REPEATS

    def on(self, machine: Machine, ranks: int = 1) -> Workload:
        """Return one of `ranks` equal processes, with as many threads as it has cores on the machine.

        Raises UsageError for an unknown name and for less memory than the loops need.
        """
        threads = max(1, machine.cores.count.value // ranks)
        return declared(self.name, self.size_bytes // ranks, threads, self.repeats)


def workload(name: str, size: str | int) -> Declared:
    """Return loops of a known program, such as `stream-triad` or `cg`, of `size` on the whole node.

    `size` is a number of bytes or a text such as "17.6GB" or "16GiB". docs/declared.md lists the names.
    `simulate` divides the loops among the cores of its machine.

    Raises UsageError for a size that cannot be read. The name is checked once the machine is known.

    >>> workload("stream-triad", size="1GiB").size_bytes
    1073741824
    """
    return Declared(name, parse_size(size, "size") if isinstance(size, str) else size)


def trace(
    path: str | os.PathLike[str],
    cut_of: CutOf | None = None,
    machine: Machine | None = None,
    progress: bool = True,
) -> TraceWorkload:
    """Return the workload of a trace file that `pagelens trace` or `record` has written.

    A trace that was cut short is used, and says so in `.warnings`. `.footprint_bytes` is the most memory that
    the program had at a time, `.objects` lists its allocations. A long trace is read once less if you say
    what it is for: `machine` is the one that `simulate` will get, and `cut_of`, for `place`, names the sample
    of lines whose course is wanted. Reading shows a bar on a terminal, unless `progress` is false.

    Raises Failure for a file that is no trace or holds no accesses.

    >>> trace("tests/data/trace-version-2.bin")
    <TraceWorkload of golden: 188 KiB>
    """
    first = asked_first(machine) if machine is not None else None
    with progress_bar(not progress, "reading the trace", percent=True, patience_s=0.5) as bar:
        found = open_trace(Path(path), cut_of, first, bar)
    if found.survey.line_events == 0:
        raise Failure(f"trace {path}: it holds no accesses to explain; trace the program again")
    return found


def traces(
    paths: Sequence[str | os.PathLike[str]],
    machine: Machine | None = None,
    ranks: int | None = None,
    progress: bool = True,
) -> JobWorkload:
    """Return the workload of a job whose ranks were traced one by one (`pagelens trace -o app.%r.trace`).

    The ranks are those of the traces, in this order. Each has its own pages, objects and threads; they share
    the caches and memories of the node. With more `ranks`, the others are copies of the traced ones in turn.
    `machine` and `progress` are as in `trace`.

    Raises UsageError for no traces, Failure where `trace` does.

    >>> traces(2 * ["tests/data/trace-version-2.bin"]).processes
    2
    """
    if not paths:
        raise UsageError("traces: the list is empty; give a trace of each rank")
    return JobWorkload([trace(path, machine=machine, progress=progress) for path in paths], ranks)


def record(
    command: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    accesses: int = DEFAULT_BUDGET,
    skip: int = 0,
    from_function: str | None = None,
    region: str | None = None,
    progress: bool = True,
) -> TraceWorkload:
    """Run a program under the tracer, and return its workload.

    `command` is the program and its arguments. The trace is written to `output`; without it, to a temporary
    file that lives as long as the workload. Tracing begins after `skip` data accesses, or at the first call
    of `from_function`, and ends after `accesses` of them (0: never); with `region` only what lies between its
    markers is traced.

    Raises UsageError for a program that cannot be traced, Failure if nothing was traced, and Interrupted on
    Ctrl-C.

    >>> pagelens.record(["examples/triad", "4", "2"]).footprint_bytes > 4e6  # doctest: +SKIP
    True
    """
    words = [os.fspath(word) for word in command]
    if not words:
        raise UsageError("record: the command is empty; give a program and its arguments")

    def write(path: Path) -> TraceWorkload:
        request = TraceRequest(
            words, str(path), accesses=accesses, skip=skip, from_function=from_function, region=region
        )
        with progress_bar(not progress, "tracing") as bar:
            result = trace_program(request, bar.traced)
        if result.interrupted:
            kept = f"; {result.path} holds what the program did until then" if output is not None else ""
            raise Interrupted(f"interrupted while tracing{kept}")
        if why := nothing_to_explain(result, request):
            raise Failure(why)
        return trace(result.path, progress=progress)

    return _written(output, write)


def import_trace(
    importer: str | Importer,
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    program: str | None = None,
    any_tlb: bool = False,
    progress: bool = True,
) -> TraceWorkload:
    """Turn another tool's trace into one of pagelens, and return its workload.

    `importer` names the format of the file or folder `path`, such as "lackey" (valgrind) or "drmemtrace";
    docs/interchange.md lists all. It can also be an `Importer` of your own (docs/extending.md). `path` is "-"
    for standard input. A file that gzip, xz, bzip2, zstd or zip compressed is read as well. The trace is
    written to `output`; without it, to a temporary file that lives as long as the workload. `program` is what
    the program is called, by default as the file. `any_tlb` keeps the uses of pages exact for fully
    associative TLBs and large pages too.

    A file that ends too early is imported up to there; `.warnings` says so. Raises UsageError for an unknown
    format, Failure for what is not of the format (with the line), and Interrupted on Ctrl-C.

    >>> import_trace("lackey", "tests/data/lackey.txt").footprint_bytes
    65536
    """
    chosen = find_importer(importer) if isinstance(importer, str) else importer

    def write(result: Path) -> TraceWorkload:
        with progress_bar(not progress, "importing", percent=True, patience_s=2.0) as bar:

            def report(done: int, total: int | None) -> None:
                if total is None:
                    bar.begin(f"importing: {done / 1e6:.0f} MB")
                else:
                    bar(done, total)

            import_file(chosen, os.fspath(path), result, program=program, any_tlb=any_tlb, report=report)
        return trace(result, progress=progress)

    return _written(output, write)


def _written(output: str | os.PathLike[str] | None, write: Callable[[Path], TraceWorkload]) -> TraceWorkload:
    """Return what `write` returns for the trace that it writes.

    The trace goes to `output`, or to a file that exists as long as it is used.
    """
    if output is not None:
        return write(Path(output))
    folder = tempfile.mkdtemp(prefix="pagelens-")
    try:
        found = write(Path(folder) / "program.trace")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found
