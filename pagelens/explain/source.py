"""What a user asked to have explained: a declared workload, a trace, or a program that is traced first."""

import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pagelens.accesses import Workload, is_trace, open_trace
from pagelens.accesses.declared import declared
from pagelens.accesses.tracer import TraceRequest, describe, trace_program
from pagelens.ensemble import Scaled, scale_to
from pagelens.errors import UsageError
from pagelens.explain.outputs import make_directory
from pagelens.machine import Machine
from pagelens.units import parse_size

OUTPUT = Path("pagelens-out")
WHOLE_RUN = "all"


@dataclass(frozen=True)
class Source:
    """A program, how its copies fill a node, and where results go."""

    program: Workload
    scaled: Scaled
    directory: Path


def declare(name: str, size: str | None, machine: Machine, ranks: int | None, output: Path | None) -> Source:
    """A declared workload of `size` on the whole node, divided among the ranks (one, if not stated)."""
    if size is None:
        raise UsageError(f"--size: is missing; say how much memory '{name}' has on a node, as --size 17.6GB")
    copies, cores = ranks or 1, machine.cores.count.value
    program = declared(name, parse_size(size, "--size") // copies, max(1, cores // copies))
    directory = output or OUTPUT / f"{name}-{''.join(size.split())}"
    return Source(program, Scaled(machine, copies), directory)


def trace_or_open(
    target: Sequence[str],
    machine: Machine,
    ranks: int | None,
    full_size: str | None,
    output: Path | None,
    request: TraceRequest,
) -> Source:
    """A trace if `target` is one, else the program that it names, traced as `request` says.

    The new trace is kept in the directory of the results.
    """
    path = Path(target[0])
    if len(target) == 1 and is_trace(path):
        program = open_trace(path)
        directory = output or OUTPUT / program.name
    else:
        directory = make_directory(output or OUTPUT / path.name)
        program = open_trace(_trace(request, directory / f"{path.name}.trace"))
    copies = ranks or max(1, machine.cores.count.value // program.threads)
    if full_size is None:
        return Source(program, Scaled(machine, copies), directory)
    size = parse_size(full_size, "--full-size")
    return Source(program, scale_to(machine, program.footprint_bytes, size, copies), directory)


def choose_phase(name: str | None, program: Workload) -> str | None:
    """The phase to explain; None is the whole run, the default but for declared workloads."""
    if name is None:
        return getattr(program, "measured_phase", None)
    if name == WHOLE_RUN:
        return None
    if name not in program.phases:
        known = [phase for phase in program.phases if phase]
        near = ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0.4) or known)
        offer = (
            f"{program.name} has {near}; '{WHOLE_RUN}'" if near else f"{program.name} has none; '{WHOLE_RUN}'"
        )
        raise UsageError(f"--phase: '{name}' is unknown; {offer} is the whole run")
    return name


def _trace(request: TraceRequest, path: Path) -> Path:
    """Traces the program; what the user should know of its run goes to standard error."""
    request = replace(request, output=str(path))
    result = trace_program(request)
    for line in describe(result, request):
        print(f"pagelens: {line}", file=sys.stderr)
    return result.path
