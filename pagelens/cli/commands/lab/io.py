"""`pagelens lab io`: Show what a slow core does to I/O."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from pagelens.cli.commands.lab.options import KernelName
from pagelens.cli.options import Json, Quiet
from pagelens.lab import DEFAULT_KERNEL, write_in_guest
from pagelens.units import parse_rate, parse_size

commands = typer.Typer()


@commands.command("io", epilog="  pagelens lab io --disk 400MB/s")
def io_command(
    disk: Annotated[
        str, typer.Option(metavar="RATE", help="The rate of the guest's disk, such as 400MB/s.")
    ] = "400MB/s",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="The size of the file that is written.")
    ] = "256MiB",
    kernel: KernelName = DEFAULT_KERNEL,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a slow core does to I/O: writes and small files of an emulated guest.

    The guest has one processor, which QEMU emulates, and a disk of the given rate.
    A model takes the times of two sizes of requests or files, and predicts the others.
    """
    from pagelens.cli.text.lab_io import render_written
    from pagelens.progress import progress_bar

    file_bytes, rate = parse_size(size, "--size"), parse_rate(disk, "--disk")
    with progress_bar(quiet, "files") as bar:
        written = write_in_guest(file_bytes, rate, kernel, bar)
    if as_json:
        rows = [dataclasses.asdict(each) for each in written]
        typer.echo(json.dumps({"schema": "pagelens lab io", "version": 1, "written": rows}, indent=1))
    elif not quiet:
        typer.echo("\n".join(render_written(written, rate)))
