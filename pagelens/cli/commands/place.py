"""`pagelens place`: Decide which objects go into fast memory, or on which NUMA nodes, and write a plan."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from pagelens.accesses import DEFAULT_BUDGET, STDERR, JobWorkload, TraceRequest, Workload, is_trace
from pagelens.api import place
from pagelens.cli.options import (
    Accesses,
    EngineName,
    FollowExec,
    FromFunction,
    MachineName,
    Output,
    Quiet,
    Ranks,
    Region,
    Size,
    Skip,
    Targets,
    WorkloadName,
)
from pagelens.cli.source import Source, choose_source
from pagelens.cli.text.place import render_terminal
from pagelens.cli.text.place_nodes import render_nodes
from pagelens.errors import Interrupted, UsageError
from pagelens.machine import choose_machine
from pagelens.place import (
    FIGURE,
    check_two_memories,
    parse_capacity,
    place_on_nodes,
    profiled_cut,
    read_list,
    write_nodes,
    write_outputs,
)
from pagelens.run import emulate_plan
from pagelens.spelling import typed_command

EXAMPLES = """Examples:

  pagelens place --machine cori-knl-flat -- ./app args

  pagelens place --machine xeon-max-flat --capacity 50% app.trace

  pagelens place --machine xeon-max-flat app.*.trace

  pagelens place --machine skx-6140-2s app.trace

  pagelens run --plan pagelens-out/app/plan.toml --report -- ./app args
"""
_COMPARISON = "Comparing and measuring"

Capacity = Annotated[
    str | None,
    Option(
        metavar="SIZE",
        help="How much fast memory of a node the job may use: 4GiB, or 50% of the program's memory; by "
        "default all of it.",
    ),
]
List = Annotated[
    Path | None,
    Option(
        "--list",
        metavar="FILE",
        help="Compare with a developer's list: one name of an object per line, in the order of placement.",
        rich_help_panel=_COMPARISON,
    ),
]
Json = Annotated[bool, Option("--json", help="Print the report as JSON (docs/place.md).")]
Moves = Annotated[
    bool,
    Option(
        "--moves",
        help="Let the plan move objects between marked regions (hooks/pagelens.h) where that is faster.",
    ),
]
Emulate = Annotated[
    bool,
    Option(
        "--emulate",
        help="Measure the plan on two sockets: near memory as fast, far memory as slow (docs/place.md).",
        rich_help_panel=_COMPARISON,
    ),
]

app = Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def place_command(
    target: Targets = None,
    machine: MachineName = None,
    capacity: Capacity = None,
    ranks: Ranks = None,
    moves: Moves = False,
    workload: WorkloadName = None,
    size: Size = None,
    output: Output = None,
    json: Json = False,
    quiet: Quiet = False,
    list_: List = None,
    emulate: Emulate = False,
    accesses: Accesses = DEFAULT_BUDGET,
    skip: Skip = 0,
    from_function: FromFunction = None,
    follow_exec: FollowExec = None,
    region: Region = None,
    engine: EngineName = None,
) -> None:
    """Decide which objects go into fast memory, or on which NUMA nodes, and write a plan."""
    taken = choose_machine(machine)
    on_nodes = taken.machine.mode == "single" and taken.machine.topology.nodes > 1
    if on_nodes:
        _refuse_of_two_memories(taken.machine.name, capacity, list_, moves, emulate)
    else:
        check_two_memories(taken.machine, "--machine")
    names = read_list(list_) if list_ is not None else None
    fast = None if on_nodes else parse_capacity(capacity, taken.machine, "--capacity")
    if emulate and (not target or is_trace(Path(target[0]))):
        raise UsageError("--emulate: runs a program; give it, as -- ./app args")
    request = TraceRequest(
        target or [],
        "",
        accesses=accesses,
        skip=skip,
        from_function=from_function,
        region=region,
        follow_exec=follow_exec,
        stdout=STDERR if json else None,
        engine=engine,
    )
    found = choose_source(
        "place", request, workload, size, taken.machine, ranks, None, output, quiet,
        None if on_nodes else lambda opened: profiled_cut(opened, taken.machine, ranks),
    )  # fmt: skip
    if on_nodes:
        with _interrupted_in_a_line(), found as source:
            _on_nodes(source, json, quiet)
        return
    with _interrupted_in_a_line(), found as source:
        reports = []
        for directory, program, copies in _programs(source):
            assignment = place(
                program,
                source.scaled.machine,
                fast,
                copies,
                developer=names,
                moves=moves,
                command=typed_command(["pagelens", *sys.argv[1:]]),
                progress=not quiet,
            )
            reports.append((directory, write_outputs(assignment, directory)))
        measured = emulate_plan(target, Path(reports[0][1].plan)) if emulate and target else []
    if taken.note and not quiet:
        print(taken.note, file=sys.stderr)
    if json:
        data = [shown.model_dump_json(indent=1) for _, shown in reports]
        print(data[0] if len(data) == 1 else f"[{', '.join(data)}]")
    elif not quiet:
        for directory, shown in reports:
            print(render_terminal(shown))
            if shown.plan:
                print(f"Plan: {shown.plan}")
            print(f"Figure: {directory / FIGURE}")
    for line in measured:
        print(line, file=sys.stderr if json else sys.stdout)


def _refuse_of_two_memories(
    machine: str, capacity: str | None, list_: Path | None, moves: bool, emulate: bool
) -> None:
    given = {"--capacity": capacity, "--list": list_, "--moves": moves, "--emulate": emulate}
    if name := next((name for name, value in given.items() if value), None):
        raise UsageError(f"{name}: is for machines with fast memory, and {machine} has none; leave it out")


def _on_nodes(source: Source, json: bool, quiet: bool) -> None:
    """Place objects on NUMA nodes, and print or write what comes of it."""
    found = place_on_nodes(source.program, source.scaled.machine, source.scaled.ranks)
    shown = write_nodes(found, source.directory)
    if json:
        print(shown.model_dump_json(indent=1))
    elif not quiet:
        print(render_nodes(shown))


def _programs(source: Source) -> Iterator[tuple[Path, Workload, int]]:
    """Yield where the results go, a program, and how many ranks run it.

    Each traced rank of a job is placed by itself, as if all ranks of the node were like it.
    """
    job = source.program
    if not isinstance(job, JobWorkload):
        yield source.directory, job, source.scaled.ranks
        return
    for number, program in zip(job.numbers, job.traces, strict=True):
        directory = source.directory / f"rank-{number}"
        directory.mkdir(exist_ok=True)
        yield directory, program, job.processes * source.scaled.ranks


@contextmanager
def _interrupted_in_a_line() -> Iterator[None]:
    """Report Ctrl-C in one line.

    Tracing and placing report it themselves, with what they have kept.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted before all was written; the same command begins anew") from None
