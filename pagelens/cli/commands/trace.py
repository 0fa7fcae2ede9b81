"""`pagelens trace`: traces a program into a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pagelens.accesses.tracer import DEFAULT_BUDGET, TraceRequest, describe, end_like, trace_program
from pagelens.cli.trace_progress import trace_progress

EXAMPLES = """Examples:

  pagelens trace -o app.trace -- ./app args

  pagelens trace -o app.trace --from-function solve --accesses 200000000 -- ./app args

  mpirun -n 4 pagelens trace -o app.%r.trace -- ./app args
"""

app = typer.Typer(add_completion=False)


@app.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
def trace(
    command: Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="What to run.")],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The trace; %r is the MPI rank, %p the process id."
        ),
    ] = "",
    accesses: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Stop tracing after N data accesses, let the program finish; 0: never."
        ),
    ] = DEFAULT_BUDGET,
    skip: Annotated[int, typer.Option(min=0, metavar="N", help="Begin after N data accesses.")] = 0,
    from_function: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Begin when the program first calls NAME (then --skip counts)."),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Trace only between the markers of region NAME (hooks/pagelens.h)."
        ),
    ] = None,
    follow_exec: Annotated[
        bool, typer.Option("--follow-exec", help="Trace children too, each into FILE with its process id.")
    ] = False,
    any_tlb: Annotated[
        bool,
        typer.Option(
            "--any-tlb", help="Keep page uses for fully associative TLBs and large pages too; takes longer."
        ),
    ] = False,
) -> None:
    """Trace a program: which lines of memory it moves, by object, thread and phase.

    The program's output, exit status and folder are as if it ran alone.
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
    )
    with trace_progress() as progress:
        result = trace_program(request, progress)
    for line in describe(result, request):
        print(f"pagelens: {line}", file=sys.stderr)
    raise typer.Exit(end_like(result))
