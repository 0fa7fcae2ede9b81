"""Runs a program under the tracer: the emulator with its plugin, and what became of it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pagelens.accesses.emulator import Emulator, find_emulator
from pagelens.accesses.program import GuestProgram, find_program
from pagelens.accesses.unsupported import Unsupported
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.host.output_name import checked_output, expand_rank
from pagelens.host.program_signals import SignalsHandedOn

DEFAULT_BUDGET = 500_000_000  # accesses

_SETTINGS = {  # of the program's environment, unless the user has others
    "PYTHONMALLOC": "malloc",  # Python's own allocator hides its objects in arenas
    "OMP_WAIT_POLICY": "passive",  # who waits in a system call is ordered by it, who spins is not
}

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """What to trace, and how much of it."""

    command: Sequence[str]
    output: str  # %r: MPI rank, %p: process id
    accesses: int = DEFAULT_BUDGET  # 0: no limit
    skip: int = 0
    from_function: str | None = None
    region: str | None = None  # its markers switch tracing on and off
    follow_exec: bool = False
    any_tlb: bool = False  # the page filter hides only what hits every TLB of four ways and more


@dataclass(slots=True)
class TraceResult:
    """How the run ended and what is in the file."""

    path: Path
    exit_status: int  # of the program; -n: killed by signal n
    complete: bool = False  # the tracer saw the end of the program
    accesses: int = 0
    instructions: int = 0
    total_instructions: int = 0
    untraced_children: dict[int, str] = field(default_factory=dict)  # process id: program
    unsupported: Unsupported | None = None  # the instruction that the emulator does not execute
    interrupted: bool = False  # Ctrl-C was pressed meanwhile, whatever the program made of it

    @property
    def share_seen(self) -> float | None:
        """Traced instructions over all that ran; none if the end was not seen."""
        return (
            self.instructions / self.total_instructions if self.complete and self.total_instructions else None
        )


def trace_program(request: TraceRequest, progress: Callable[[float, int], None] | None = None) -> TraceResult:
    """Runs the program to its end, in this terminal and folder, and leaves its trace at `output`.

    `progress(seconds, bytes)` is called now and then. Raises UsageError or Failure before the program runs,
    and Failure after it if the trace could not be written.
    """
    _check_region_of_interest(request)
    program = find_program(request.command)
    emulator = find_emulator()
    output = expand_rank(request.output, os.environ)
    path = checked_output(output)
    with tempfile.NamedTemporaryFile(prefix="pagelens-", suffix=".status") as status:
        words = _command_line(request, program, emulator, output, Path(status.name))
        with SignalsHandedOn() as signals:
            process = subprocess.Popen(
                words, env=_environment(emulator), close_fds=False
            )  # MPICH hands one down
            signals.begin(process, begun=lambda: Path(status.name).stat().st_size > 0)
            # The emulator runs as the process that was started.
            path = Path(str(path).replace("%p", str(process.pid)))
            exit_status = _wait(process, path, progress)
        text = Path(status.name).read_text(errors="surrogateescape")
    result = TraceResult(path, exit_status)
    result.interrupted = signal.SIGINT in signals.seen
    _read_status(text, process.pid, result, began=not signals.ended_early)
    return result


def _check_region_of_interest(request: TraceRequest) -> None:
    if request.region is None:
        return
    if not request.region:
        raise UsageError("--region '': a region has a name; give that of pagelens_region_begin(\"name\")")
    for option, value in {"--from-function": request.from_function, "--skip": request.skip}.items():
        if value:
            raise UsageError(f"--region {request.region}: cannot stand beside {option}; leave one out")


def _command_line(
    request: TraceRequest, program: GuestProgram, emulator: Emulator, output: str, status: Path
) -> list[str]:
    options = {
        "file": emulator.plugin,
        "plugin": emulator.plugin,
        "qemu": emulator.qemu,
        "hooks": emulator.hooks,
        "output": Path(output).absolute(),
        "status": status,
        "accesses": request.accesses,
        "skip": request.skip,
        "wide_reads": int(emulator.wide_reads),
        "any_tlb": int(request.any_tlb),
    }
    if request.follow_exec:
        options["child_output"] = _child_output(Path(output).absolute())
    if request.region is not None:
        options["region"] = request.region
    if request.from_function is not None:
        # With it comes numpy: only who names a function waits for it.
        from pagelens.accesses.named_function import find_function

        file, address = find_function(program.path, request.from_function)
        options |= {"function_file": file, "function_address": address}
    plugin = ",".join(f"{key}={str(value).replace(',', ',,')}" for key, value in options.items())
    preload = ":".join(filter(None, [str(emulator.hooks), os.environ.get("LD_PRELOAD", "")]))
    return [
        str(emulator.qemu),
        *("-plugin", plugin),
        *("-E", f"LD_PRELOAD={preload}"),
        *(
            word
            for name, value in _SETTINGS.items()
            if name not in os.environ
            for word in ("-E", f"{name}={value}")
        ),
        *("-0", program.argv0),
        str(program.path),
        *program.arguments,
    ]


def _environment(emulator: Emulator) -> dict[str, str]:
    # The plugin has to see the emulator's own kill(): see tracer/plugin.cpp.
    return {**os.environ, "LD_PRELOAD": str(emulator.plugin)}


def _child_output(output: Path) -> Path:
    return output if "%p" in output.name else output.with_name(f"{output.stem}.%p{output.suffix}")


def _wait(process: subprocess.Popen[bytes], path: Path, progress: Callable[[float, int], None] | None) -> int:
    if progress is None:
        return process.wait()
    start = time.monotonic()
    partial = _partial(path)
    while True:
        try:
            return process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            size = partial.stat().st_size if partial.exists() else 0
            progress(time.monotonic() - start, size)


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def _read_status(text: str, pid: int, result: TraceResult, began: bool = True) -> None:
    """Takes in what the plugin reported (tracer/status.hpp); files of killed programs get their names.

    Raises Failure, or Interrupted if the program did not come to run.
    """
    facts = [line.split(" ", 2) for line in text.split("\n") if line]
    begun = [(int(process), Path(rest[0])) for process, what, *rest in facts if what == "begun"]
    trace_of = dict(begun)  # the last one of each process
    finished: set[int] = set()
    unwritten: tuple[Path, int] | None = None  # a trace, and why it is not there
    for process_id, what, *rest in facts:
        process, details = int(process_id), " ".join(rest)
        if what == "finished":
            error, *counts = map(int, details.split())
            if error:
                unwritten = trace_of[process], error
            # Programs that the process executed afterwards have traces of their own.
            if process == pid and pid not in finished:
                result.accesses, result.instructions, result.total_instructions = counts
                result.complete = True
            finished.add(process)
        elif what == "avx512":
            result.unsupported = Unsupported.parse(details, trace_of.get(process))
        elif what == "error":
            for _, path in begun:
                _partial(path).unlink(missing_ok=True)
            raise Failure(f"tracing stopped: {details}")
        elif what == "exec":
            result.untraced_children[process] = details
        elif what == "fork":
            result.untraced_children[process] = "a fork of the program"
    began = began and (pid in finished or any(_partial(path).exists() for _, path in begun))
    if not began:
        for _, path in begun:
            _partial(path).unlink(missing_ok=True)
        if result.interrupted:
            raise Interrupted("interrupted before the program began; nothing was traced")
        raise Failure(
            f"the emulator ended with status {result.exit_status} before the program began; "
            "see its message above"
        )
    for process, path in begun:
        if _partial(path).exists() and _has_ended(process):
            _partial(path).rename(path)
    if unwritten is not None:
        path, error = unwritten
        raise Failure(f"trace {path}: {os.strerror(error)}; {_remedy(error)}")


def _remedy(error: int) -> str:
    return {
        errno.ENOSPC: "free some space, choose another folder or lower --accesses",
        errno.EDQUOT: "free some of your quota, choose another folder or lower --accesses",
        errno.EFBIG: "raise the limit of a file's size (ulimit -f) or lower --accesses",
        errno.EIO: "the disk or its file system failed; choose another folder",
    }.get(error, "choose another folder")


def _has_ended(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def nothing_traced(result: TraceResult, request: TraceRequest) -> str | None:
    """Why a program that ran to its end has an empty trace; none if it has not."""
    if not result.complete or result.accesses > 0:
        return None
    if request.region is not None:
        return f"--region {request.region}: the program never began it; its markers name the regions"
    if request.from_function is not None:
        return f"--from-function {request.from_function}: the program never called it"
    return f"--skip {request.skip}: the program made fewer accesses"


def describe(result: TraceResult, request: TraceRequest) -> Iterator[str]:
    """What the user should know of the run, a line each."""
    if result.exit_status == -signal.SIGILL and result.unsupported is not None:
        yield (
            f"{request.command[0]} has {result.unsupported}, which QEMU does not execute; "
            "compile it with -march=x86-64-v3"
        )
    elif result.exit_status < 0:
        name = signal.Signals(-result.exit_status).name
        held = "what it did until then" if result.complete else "what had been written by then, not the last"
        yield f"{request.command[0]} was killed by {name}; {result.path} holds {held}"
    if result.complete and request.accesses and result.accesses >= request.accesses:
        share = result.share_seen or 0
        yield (
            f"the budget of {request.accesses:,} accesses was used up: {result.path} holds {share:.1%} of "
            "the program's instructions; --accesses N sets the budget, 0 is none"
        )
    if (why := nothing_traced(result, request)) is not None:
        yield f"{why}; {result.path} holds no accesses"
    if result.untraced_children and not request.follow_exec:
        named = [f"{what} (process {process})" for process, what in result.untraced_children.items()]
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        yield f"not traced: {', '.join(named[:3])}{more}; --follow-exec traces children"
