"""`pagelens explain`: from a program, a trace or a declared workload to the answer."""

import difflib
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pagelens.accesses import Workload, open_trace
from pagelens.accesses.declared import declared
from pagelens.accesses.tracer import DEFAULT_BUDGET, TraceRequest, describe, trace_program
from pagelens.ensemble import Scaled, check_fits, run_ensemble, scale_to
from pagelens.errors import UsageError
from pagelens.explain.analysis import explain
from pagelens.explain.outputs import make_directory, write_outputs
from pagelens.explain.progress import progress_bar
from pagelens.explain.terminal import render_terminal
from pagelens.frames import Policy, policies
from pagelens.machine import Machine, load_machine
from pagelens.units import parse_size

DEFAULT_NODES = 64
DEFAULT_POLICIES = "aged,aged+zonesort,random,contiguous,2m,1g"
_WHOLE_RUN = "all"

EXAMPLES = """
Examples:

  pagelens explain -- ./app args                          trace a program, then explain it

  pagelens explain --from-function solve -- ./app args    only from the first call of solve on

  pagelens explain app.trace --nodes 256                  from a trace that exists already

  pagelens explain --workload stream-triad --size 17.6GB  declared loops, no program needed

  pagelens explain app.trace --json > app.json            the data, as docs/explain-json.md describes it
"""


def explain_command(
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TRACE | -- PROGRAM ARGS...]", help="A trace file, or a program to trace first.", show_default=False
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="A declared workload instead: stream-triad, cg, ...")
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of the declared workload on a node, as 17.6GB or 16GiB.")
    ] = None,
    machine: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="The machine: a name, or a .toml file.")
    ] = "cori-knl-cache",
    ranks: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Copies of the program on a node. [default: fill its cores]", show_default=False),
    ] = None,
    full_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Stand for this size on a smaller machine: faster, but the spread is too wide."),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Simulated nodes.")] = DEFAULT_NODES,
    policy_names: Annotated[
        str, typer.Option("--policies", metavar="A,B,...", help="Placement policies, compared on the same nodes.")
    ] = DEFAULT_POLICIES,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, metavar="N", help="Decides every random draw.")] = 1,
    phase: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Explain one phase; '{_WHOLE_RUN}' is the whole run.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where results go. [default: ./pagelens-out/NAME]", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors; write the files.")] = False,
    accesses: Annotated[
        int, typer.Option(min=0, metavar="N", help="Tracing: stop after N data accesses; 0: never.", rich_help_panel="Tracing")
    ] = DEFAULT_BUDGET,
    skip: Annotated[
        int, typer.Option(min=0, metavar="N", help="Begin after N data accesses.", rich_help_panel="Tracing")
    ] = 0,
    from_function: Annotated[
        str | None, typer.Option(metavar="NAME", help="Begin when the program first calls NAME.", rich_help_panel="Tracing")
    ] = None,
) -> None:
    """Say how fast a program runs over page placements, what costs the slow ones, and which remedy gains what."""
    stated = load_machine(machine)
    chosen = choose_policies(policy_names)
    directory: Path
    if workload is not None:
        program, directory, scaled = _declared(workload, size, target, stated, ranks, full_size, output)
    else:
        if not target:
            raise UsageError("nothing to explain; give a trace, '-- PROGRAM ARGS...' or --workload NAME --size SIZE")
        if size is not None:
            raise UsageError(f"--size: '{size}' belongs to --workload; for a trace use --ranks or --full-size")
        request = (accesses, skip, from_function)
        program, directory = _traced(target, request, output, quiet)
        scaled = _fill(program, stated, ranks, full_size)
    chosen_phase = choose_phase(phase, program)
    check_fits(program, scaled.machine, scaled.ranks)
    make_directory(directory)
    with progress_bar(quiet) as progress:
        ensemble = run_ensemble(
            program, scaled, chosen, nodes, seed, directory / "nodes", chosen_phase, progress=progress
        )
    explanation = explain(ensemble, shlex.join(["pagelens", *sys.argv[1:]]))
    report = write_outputs(explanation, ensemble, directory)
    if json:
        print(explanation.model_dump_json(indent=1))
    elif not quiet:
        print(render_terminal(explanation))
        print(f"Report: {report}")


def choose_policies(names: str) -> Mapping[str, Policy]:
    """The policies of "aged,random,2m", in that order."""
    chosen = {}
    for name in (part.strip() for part in names.split(",")):
        if name not in policies:
            near = difflib.get_close_matches(name, policies, n=3, cutoff=0.4) or list(policies)
            raise UsageError(f"--policies: '{name}' is unknown; did you mean {', '.join(near)}?")
        chosen[name] = policies[name]
    return chosen


def choose_phase(name: str | None, program: Workload) -> str | None:
    """The phase to explain; None is the whole run. A declared workload's measured phase is its default."""
    if name is None:
        return getattr(program, "measured_phase", None)
    if name == _WHOLE_RUN:
        return None
    if name not in program.phases:
        near = difflib.get_close_matches(name, program.phases, n=3, cutoff=0.4) or program.phases
        raise UsageError(f"--phase: '{name}' is unknown; {program.name} has {', '.join(near)}; or '{_WHOLE_RUN}'")
    return name


def _declared(
    name: str,
    size: str | None,
    target: Sequence[str] | None,
    machine: Machine,
    ranks: int | None,
    full_size: str | None,
    output: Path | None,
) -> tuple[Workload, Path, Scaled]:
    """A declared workload of `size` on the whole node, divided among the ranks."""
    if target:
        raise UsageError(f"--workload: takes no program or trace, but '{target[0]}' was given; leave one out")
    if full_size is not None:
        raise UsageError(f"--full-size: '{full_size}' is for traces; a declared workload has its --size at true scale")
    if size is None:
        raise UsageError(f"--size: is missing; say how much memory '{name}' has on a node, such as --size 17.6GB")
    copies, cores = ranks or 1, machine.cores.count.value
    program = declared(name, parse_size(size, "--size") // copies, max(1, cores // copies))
    return program, output or Path("pagelens-out") / f"{name}-{size.replace(' ', '')}", Scaled(machine, copies)


def _traced(
    target: Sequence[str], options: tuple[int, int, str | None], output: Path | None, quiet: bool
) -> tuple[Workload, Path]:
    """The workload of a trace file, or of a program that is traced now."""
    path = Path(target[0])
    if len(target) == 1 and _is_trace(path):
        program = open_trace(path)
        return program, output or Path("pagelens-out") / program.name
    directory = make_directory(output or Path("pagelens-out") / path.name)
    accesses, skip, from_function = options
    trace = directory / f"{path.name}.trace"
    request = TraceRequest(target, str(trace), accesses=accesses, skip=skip, from_function=from_function)
    result = trace_program(request)
    if not quiet:
        for line in describe(result, request):
            print(f"pagelens: {line}", file=sys.stderr)
    return open_trace(result.path), directory


def _is_trace(path: Path) -> bool:
    """Whether a single argument names a trace rather than a program."""
    if path.suffix == ".trace":
        return True
    try:
        with path.open("rb") as file:
            return file.read(8) == TRACE_MAGIC
    except OSError:
        return False


def _fill(program: Workload, machine: Machine, ranks: int | None, full_size: str | None) -> Scaled:
    """How copies of a traced process fill the node."""
    fitting = max(1, machine.cores.count.value // program.threads)
    if full_size is not None:
        return scale_to(machine, program.footprint_bytes, parse_size(full_size, "--full-size"), ranks or fitting)
    return Scaled(machine, ranks or fitting)
