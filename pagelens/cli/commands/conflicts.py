"""`pagelens conflicts`: Find the lines of a set of pages that conflict in the snoop filter and caches."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pagelens.cli.options import Json
from pagelens.cli.text.conflicts import render
from pagelens.conflicts import conflicts as find_conflicts
from pagelens.errors import UsageError

_RARE = "Rarely needed"

EXAMPLES = """Examples:

  pagelens conflicts --machine skx-8160 --frames pages.txt --held 1000000B

  sudo pagelens conflicts --machine skx-8160 --pid 4711 --pool free

See docs/conflicts.md for the format of FILE.
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def conflicts(
    machine: Annotated[
        str,
        typer.Option(metavar="NAME", help="The machine, such as skx-8160, or a .toml file."),
    ],
    frames: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A list of pages, one a line: 0xADDRESS or a 4 KiB frame's number; or JSON."
        ),
    ] = None,
    pid: Annotated[
        int | None, typer.Option(metavar="PID", min=1, help="Use a process's live pages; needs root.")
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Pages that could take the place of some; 'free' is free memory."),
    ] = None,
    as_json: Json = False,
    page_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Size of the pages in files.", show_default="2MiB", rich_help_panel=_RARE
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The number of cores that hold lines.",
            show_default="all cores of the socket",
            rich_help_panel=_RARE,
        ),
    ] = None,
    held: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Bytes that each L2 holds at a time.",
            show_default="the full L2",
            rich_help_panel=_RARE,
        ),
    ] = None,
    swaps: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=1000,
            help="Name at most N pages to exchange for others of --pool.",
            rich_help_panel=_RARE,
        ),
    ] = 8,
    lines: Annotated[
        bool, typer.Option("--lines", help="Add lines in crowded sets to JSON.", rich_help_panel=_RARE)
    ] = False,
    root: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Captured tree that holds proc/.", rich_help_panel=_RARE),
    ] = Path("/"),
) -> None:
    """Find the lines of a set of pages that conflict in the snoop filter and caches.

    A set of a cache holds as many lines as it has ways. If the pages have more
    lines in a set, it cannot hold them all at a time, in whatever order they are
    accessed. Physical addresses are all that is needed to count them.
    """
    if (frames is None) == (pid is None):
        raise UsageError("conflicts: give either --frames FILE or --pid PID")
    if lines and not as_json:
        raise UsageError("--lines: add --json, which lists them")
    found = find_conflicts(
        frames,
        machine=machine,
        pid=pid,
        page_size=page_size,
        cores=cores,
        held=held,
        pool=pool,
        swaps=swaps,
        root=root,
    )
    if as_json:
        typer.echo(json.dumps(found.to_json(lines), indent=2))
    else:
        typer.echo(render(found.prediction, found.swaps), nl=False)
