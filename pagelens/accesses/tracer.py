"""Runs a program under the tracer: the emulator with its plugin, and what became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from pagelens.accesses.emulator import Emulator, find_emulator
from pagelens.accesses.program import GuestProgram, find_program
from pagelens.accesses.trace_result import TraceResult, keep_busiest, partial_of, read_status
from pagelens.errors import UsageError
from pagelens.host.output_name import checked_output, expand_rank
from pagelens.host.program_signals import SignalsHandedOn

DEFAULT_BUDGET = 500_000_000  # accesses
STDERR = 2  # a descriptor, for `TraceRequest.stdout`

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
    # Of the programs that the first one becomes or starts. None: all are traced, and the trace with the
    # most accesses is kept. True: forks are traced, too, and each has a trace. False: they run natively.
    follow_exec: bool | None = None
    any_tlb: bool = False  # the page filter hides only what hits every TLB of four ways and more
    stdout: int | None = None  # a descriptor for the program's standard output; None: that of this process


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
                words, env=_environment(emulator), stdout=request.stdout, close_fds=False
            )  # MPICH hands a descriptor down
            signals.begin(process, begun=lambda: Path(status.name).stat().st_size > 0)
            # The emulator runs as the process that was started.
            path = Path(str(path).replace("%p", str(process.pid)))
            exit_status = _wait(process, path, progress)
        text = Path(status.name).read_text(errors="surrogateescape")
    result = TraceResult(path, exit_status)
    result.interrupted = signal.SIGINT in signals.seen
    read_status(text, process.pid, result, began=not signals.ended_early)
    if request.follow_exec is None:
        keep_busiest(result)
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
    if request.follow_exec or (request.follow_exec is None and request.from_function is None):
        options["child_output"] = _child_output(Path(output).absolute())
        options["follow_forks"] = int(bool(request.follow_exec))
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
    while True:
        try:
            return process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            progress(time.monotonic() - start, _bytes_written(path))


def _bytes_written(path: Path) -> int:
    """The size so far of the traces of the program and of those that it runs."""
    size = 0
    for part in (partial_of(path), *path.parent.glob(f"{escape(path.stem)}.*{path.suffix}.partial")):
        with suppress(FileNotFoundError):  # it may be finished meanwhile
            size += part.stat().st_size
    return size
