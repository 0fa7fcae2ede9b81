"""Runs a program under the tracer, which is an engine with its client or plugin, and reports the result."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from pagelens.accesses.compiled import CompiledIn
from pagelens.accesses.dynamorio import place_alike_each_time
from pagelens.accesses.emulator import Emulator
from pagelens.accesses.engine_choice import Engine, choose_engine
from pagelens.accesses.preloading import preloaded
from pagelens.accesses.program import GuestProgram, find_program
from pagelens.accesses.system_limits import check_system
from pagelens.accesses.trace_result import TraceResult, keep_busiest, keep_together, partial_of, read_status
from pagelens.errors import Failure, UsageError
from pagelens.host.memory_kills import memory_kills
from pagelens.host.output_name import checked_output, expand_rank, rank_in_words
from pagelens.host.process_binding import binding_in_words
from pagelens.host.program_signals import SignalsHandedOn

DEFAULT_BUDGET = 500_000_000  # accesses
STDERR = 2  # a descriptor, for `TraceRequest.stdout`

_SETTINGS = {  # of the program's environment, unless the user has others
    "PYTHONMALLOC": "malloc",  # Python's own allocator hides its objects in arenas
    "OMP_WAIT_POLICY": "passive",  # who waits in a system call is ordered by it, who spins is not
}
# The emulator has no process_vm_readv, with which Open MPI copies long messages between ranks. Without it,
# Open MPI would leave windows to UCX, which may not be able to make them.
_SETTINGS_EMULATED = _SETTINGS | {
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_osc": "^ucx",
}

# The longest message of MPI whose send does not wait for its receive (hooks/mpi_library.c).
EAGER_LIMIT_VARIABLE = "PAGELENS_EAGER_LIMIT"

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
    # Which programs are traced, of those that the first one becomes or starts. None: all of them, and the
    # trace with the most accesses is kept. True: forks, too, and each has a trace. False: they run natively.
    follow_exec: bool | None = None
    keep_together: bool = False  # where all are traced, keep the traces of forks that ran side by side
    any_tlb: bool = False  # the page filter hides only what hits every TLB of four ways and more
    stdout: int | None = None  # a descriptor for the program's standard output; None: that of this process
    engine: str | None = None  # one of ENGINES; None leaves it to the environment


def trace_program(request: TraceRequest, progress: Callable[[float, int], None] | None = None) -> TraceResult:
    """Run the program to its end, in this terminal and folder, and leave its trace at `output`.

    `progress(seconds, bytes)` is called now and then. Raises UsageError or Failure before the program runs,
    and Failure after it if the trace could not be written.
    """
    _check_region_of_interest(request)
    _check_eager_limit(os.environ.get(EAGER_LIMIT_VARIABLE, "0"))
    program = find_program(request.command)
    engine, note = choose_engine(request.engine, program.path)
    check_system()
    output = expand_rank(request.output, os.environ)
    path = checked_output(output)
    killed_before = memory_kills()
    with tempfile.NamedTemporaryFile(prefix="pagelens-", suffix=".status") as status:
        start = _start_of(engine, request, program, output, Path(status.name))
        with SignalsHandedOn() as signals:
            process = start()
            signals.begin(process, begun=lambda: Path(status.name).stat().st_size > 0)
            # The engine runs as the process that was started.
            path = Path(str(path).replace("%p", str(process.pid)))
            exit_status = _wait(process, path, progress)
        text = Path(status.name).read_text(errors="surrogateescape")
    if isinstance(engine, CompiledIn) and not text:
        raise Failure(
            f"--engine compiled: {request.command[0]} ran, but was not compiled for tracing; compile it with "
            "the flags that pagelens compile-flags prints, or leave the option out"
        )
    result = TraceResult(path, exit_status)
    result.interrupted = signal.SIGINT in signals.seen
    result.full_memory = memory_kills().since(killed_before)
    result.unseen_signal = 0 if isinstance(engine, CompiledIn) else signal.SIGKILL
    result.engine_note = note
    read_status(text, process.pid, result, began=not signals.ended_early)
    if request.follow_exec is None:
        (keep_together if request.keep_together else keep_busiest)(result)
    return result


def _check_region_of_interest(request: TraceRequest) -> None:
    if request.region is None:
        return
    if not request.region:
        raise UsageError("--region '': a region has a name; give that of pagelens_region_begin(\"name\")")
    for option, value in {"--from-function": request.from_function, "--skip": request.skip}.items():
        if value:
            raise UsageError(f"--region {request.region}: cannot stand beside {option}; leave one out")


def _check_eager_limit(text: str) -> None:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise UsageError(f"{EAGER_LIMIT_VARIABLE} {text!r}: give a number of bytes, such as 65536")


def _start_of(
    engine: Engine,
    request: TraceRequest,
    program: GuestProgram,
    output: str,
    status: Path,
) -> Callable[[], subprocess.Popen[bytes]]:
    """Return a function that starts the program in the engine.

    The program inherits open descriptors, because MPICH needs them.
    """
    if isinstance(engine, CompiledIn):
        return _start_compiled(engine, request, program, output, status)
    preload = preloaded(os.environ, engine.hooks)
    if isinstance(engine, Emulator):
        own = {
            "file": engine.plugin,
            "plugin": engine.plugin,
            "qemu": engine.qemu,
            "hooks": engine.hooks,
            "wide_reads": int(engine.wide_reads),
        }
        plugin = _as_text(own | _tracer_options(request, program, output, status))
        words = _command_line(program, engine, plugin, preload)
        return lambda: subprocess.Popen(
            words, env=_environment(engine), stdout=request.stdout, close_fds=False
        )
    own = {"plugin": engine.client, "qemu": engine.library, "hooks": engine.hooks}
    settings = _as_text(own | _tracer_options(request, program, output, status))
    inherited = {**_SETTINGS, **os.environ}
    environment = engine.environment(inherited, program.path, settings, preload)
    return lambda: subprocess.Popen(
        [program.argv0, *program.arguments],
        executable=engine.library,
        env=environment,
        stdout=request.stdout,
        close_fds=False,
        preexec_fn=place_alike_each_time,
    )


def _start_compiled(
    engine: CompiledIn, request: TraceRequest, program: GuestProgram, output: str, status: Path
) -> Callable[[], subprocess.Popen[bytes]]:
    if request.from_function is not None:
        raise UsageError(
            f"--from-function {request.from_function}: a program that was compiled for tracing does not tell "
            "of calls; mark a region with pagelens.h and name it by --region, or take another --engine"
        )
    options = {"starter": os.getpid()} | _tracer_options(request, program, output, status)
    return lambda: subprocess.Popen(
        [program.argv0, *program.arguments],
        executable=program.path.absolute(),
        env=engine.environment({**_SETTINGS, **os.environ}, _as_text(options)),
        stdout=request.stdout,
        close_fds=False,
        preexec_fn=place_alike_each_time,
    )


def _as_text(options: Mapping[str, object]) -> str:
    return ",".join(f"{key}={str(value).replace(',', ',,')}" for key, value in options.items())


def _tracer_options(
    request: TraceRequest, program: GuestProgram, output: str, status: Path
) -> dict[str, object]:
    """Return the options that both engines get (tracer/options.hpp)."""
    options: dict[str, object] = {
        "output": Path(output).absolute(),
        "status": status,
        "accesses": request.accesses,
        "skip": request.skip,
        "any_tlb": int(request.any_tlb),
        "bound": binding_in_words(),
        "rank": rank_in_words(os.environ),
    }
    if request.follow_exec or (request.follow_exec is None and request.from_function is None):
        options["child_output"] = _child_output(Path(output).absolute())
    if request.region is not None:
        options["region"] = request.region
    if chosen := _chosen_part(request):
        options["chosen"] = chosen
    if request.from_function is not None:
        # This import loads numpy, so only users who name a function wait for it.
        from pagelens.accesses.named_function import find_function

        file, address = find_function(program.path, request.from_function)
        options |= {"function_file": file, "function_address": address}
    return options


def _chosen_part(request: TraceRequest) -> str:
    """Return the options that choose a part of the run, as they are typed."""
    given = {"--skip": request.skip, "--from-function": request.from_function, "--region": request.region}
    return " ".join(f"{option} {value}" for option, value in given.items() if value)


def _command_line(program: GuestProgram, emulator: Emulator, plugin: str, preload: str) -> list[str]:
    return [
        str(emulator.qemu),
        *("-plugin", plugin),
        *("-E", f"LD_PRELOAD={preload}"),
        *(
            word
            for name, value in _SETTINGS_EMULATED.items()
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
    """Return the present size of the traces of the program and of those that it runs."""
    size = 0
    for part in (partial_of(path), *path.parent.glob(f"{escape(path.stem)}.*{path.suffix}.partial")):
        with suppress(FileNotFoundError):  # it may be finished meanwhile
            size += part.stat().st_size
    return size
