"""`pagelens trace-export`: Write a trace's physical lines or pages for another simulator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import typer

from pagelens.accesses import open_trace
from pagelens.cli.options import Seed
from pagelens.errors import UsageError
from pagelens.files import write_whole
from pagelens.frames import DEFAULT_HISTORY, Node, find_policy, parse_history
from pagelens.machine import choose_machine
from pagelens.replay import FORMATS, page_table, physical_lines, write_lines, write_v2p
from pagelens.units import format_count

EXAMPLES = """Examples:

  pagelens trace-export app.trace --format dramsim3 -o app.dramsim3

  pagelens trace-export app.trace --format ramulator --policy random --lines 1000000 -o app.ram

  pagelens trace-export app.trace --format champsim -o - | xz > app.champsimtrace.xz

  pagelens trace-export app.trace --format v2p --policy aged -o v2p.textproto
"""

WRITES = ", ".join(f"{name} writes {form.says}" for name, form in FORMATS.items())

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def trace_export(
    file: Annotated[Path, typer.Argument(help="A trace file that `pagelens trace -o FILE` wrote.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write; - is standard output."),
    ],
    form: Annotated[
        Literal["dramsim3", "ramulator", "champsim", "v2p"],
        typer.Option(
            "--format", metavar="NAME", help=f"{WRITES}; v2p is drmemtrace's table of each page's frame."
        ),
    ] = "dramsim3",
    machine: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The machine whose private caches filter the lines: a name or a .toml file."
        ),
    ] = "cori-knl-flat",
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The policy that gives the pages their frames (docs/frames.md).",
        ),
    ] = "contiguous",
    history: Annotated[
        str, typer.Option(metavar="STEPS", help="What happened on the node before the run (docs/frames.md).")
    ] = DEFAULT_HISTORY,
    node: Annotated[
        int, typer.Option(min=0, max=99_999, metavar="N", help="The number of the node in its fleet.")
    ] = 0,
    seed: Seed = 1,
    lines: Annotated[
        int, typer.Option(min=0, metavar="N", help="Write at most this many lines; 0 writes all.")
    ] = 0,
) -> None:
    """Write a trace's physical lines or pages for another simulator.

    It takes one copy of the program, puts its pages on the frames of a policy,
    and writes the lines that leave the machine's private caches, or the pages.
    """
    if form == "v2p" and lines:
        raise UsageError("--lines: has no effect on v2p, which lists pages; leave it out")
    placing = find_policy(policy, "--policy")
    chosen = choose_machine(machine).machine
    chosen.require_linux_pages("write")
    workload = open_trace(file)
    placed_on = Node(chosen, seed, node, history=parse_history(history), job_bytes=workload.footprint_bytes)
    written = 0

    def write(file: BinaryIO) -> None:
        nonlocal written
        if form == "v2p":
            written = write_v2p(*page_table(workload, chosen, placing, placed_on), file)
        else:
            batches = physical_lines(workload, chosen, placing, placed_on)
            written = write_lines(batches, FORMATS[form], lines, file)

    def write_file(partial: Path) -> None:
        with partial.open("wb") as file:
            write(file)

    if output == Path("-"):
        write(sys.stdout.buffer)
    else:
        write_whole(output, write_file)
    for warning in workload.warnings:
        print(f"pagelens: warning: {warning}", file=sys.stderr)
    what = "pages" if form == "v2p" else "lines"
    place = "standard output" if output == Path("-") else output
    print(f"pagelens: wrote {place}: {format_count(written)} {what} for {form}", file=sys.stderr)
