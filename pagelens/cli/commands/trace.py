"""`pagelens trace`: Record which lines of memory a program moves, by object, thread and phase."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pagelens.accesses import DEFAULT_BUDGET, TraceRequest, describe, end_lines, trace_program
from pagelens.cli.options import Accesses, EngineName, FollowExec, FromFunction, Region, Skip
from pagelens.host import end_like
from pagelens.progress import progress_bar

EXAMPLES = """Examples:

  pagelens trace -o app.trace -- ./app args

  pagelens trace -o app.trace --from-function solve --accesses 200000000 -- ./app args

  mpirun -n 4 pagelens trace -o app.%r.trace -- ./app args
"""

app = typer.Typer(add_completion=False)


@app.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
def trace(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="The program to trace, and its arguments."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The trace to write; %r is the MPI rank, %p the process. By default PROGRAM.trace.",
        ),
    ] = "",
    accesses: Accesses = DEFAULT_BUDGET,
    skip: Skip = 0,
    from_function: FromFunction = None,
    region: Region = None,
    follow_exec: FollowExec = None,
    any_tlb: Annotated[
        bool,
        typer.Option(
            "--any-tlb",
            help="Make the trace exact for every TLB of at least 4 ways, and for large pages; takes longer.",
        ),
    ] = False,
    engine: EngineName = None,
) -> None:
    """Record which lines of memory a program moves, by object, thread and phase.

    The program keeps its output, its exit status and its working directory.
    """
    request = TraceRequest(
        command,
        output or f"{Path(command[0]).name}.trace",
        accesses,
        skip,
        from_function,
        region,
        follow_exec,
        any_tlb,
        engine=engine,
    )
    with progress_bar(what="tracing") as progress:
        result = trace_program(request, progress.traced)
    if notes := list(describe(result, request)):
        end_lines(result)
    for line in notes:
        print(f"pagelens: {line}", file=sys.stderr)
    raise typer.Exit(end_like(result.exit_status))
