"""`pagelens trace-import`: Turn another tool's trace into a trace of pagelens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pagelens.accesses import find_importer, importer_names
from pagelens.api import import_trace
from pagelens.units import format_count, format_size

FORMATS = "\n".join(f"  {each.name}: {each.title}." for each in map(find_importer, importer_names()))
EXAMPLES = f"""Formats:

{FORMATS}

docs/interchange.md says what of a file is left out or assumed.

Examples:

  valgrind --tool=lackey --trace-mem=yes --log-file=app.lackey ./app

  pagelens trace-import lackey app.lackey -o app.trace

  zcat app.din.gz | pagelens trace-import din - -o app.trace
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def trace_import(
    form: Annotated[
        str, typer.Argument(metavar="FORMAT", help="The format of the file, one of those below.")
    ],
    file: Annotated[
        str,
        typer.Argument(help="The file, compressed or not, or drmemtrace's folder; - is standard input."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The trace to write.")],
    program: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The name that reports give the program.", show_default="as the file"
        ),
    ] = None,
    any_tlb: Annotated[
        bool,
        typer.Option(
            "--any-tlb",
            help="Make the trace exact for every TLB of at least 4 ways, and for large pages; a larger file.",
        ),
    ] = False,
) -> None:
    """Turn another tool's trace into a trace of pagelens.

    A file that ends too early is imported up to its end, with a warning.
    """
    workload = import_trace(form, file, output, program=program, any_tlb=any_tlb)
    for warning in workload.warnings:
        print(f"pagelens: warning: {warning}", file=sys.stderr)
    summary = workload.trace.summary
    assert summary is not None  # of a file that was just closed
    print(
        f"pagelens: wrote {output}: {format_count(summary.accesses)} accesses of "
        f"{format_count(summary.instructions)} instructions, "
        f"{format_size(workload.footprint_bytes)} resident",
        file=sys.stderr,
    )
