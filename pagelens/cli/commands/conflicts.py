"""`pagelens conflicts`: Say which lines of a set of pages conflict in snoop filter and caches, and which pages to swap."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelens.address.pages import parse_page_size, read_pages
from pagelens.cli.text.conflicts import render
from pagelens.conflicts.predict import Prediction, predict
from pagelens.conflicts.socket import socket_of
from pagelens.conflicts.swaps import Swap, find_swaps
from pagelens.errors import UsageError
from pagelens.host.free_frames import read_free
from pagelens.host.process_pages import VIRTUAL_MACHINE, read_process
from pagelens.machine import load_machine
from pagelens.units import parse_size

FREE = "free"  # --pool: this system's free memory
SCHEMA_VERSION = 1  # of --json; a version only adds

EXAMPLES = """Examples:

  pagelens conflicts --machine skx-8160 --frames pages.txt --held 1000000B

  pagelens conflicts --machine skx-8160 --frames pages.txt --pool free.txt --swaps 4

  sudo pagelens conflicts --machine skx-8160 --pid 4711 --pool free

A line of FILE is a physical address, 0x1c0000000, or the number of a 4 KiB frame, 1835008; after it, if you
like, the core that holds the page. docs/conflicts.md has the rest.
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def conflicts(
    machine: Annotated[
        str,
        typer.Option(metavar="NAME", help="Such as skx-8160, or a .toml file (see pagelens machines)."),
    ],
    frames: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The pages, one a line, or JSON.")
    ] = None,
    pid: Annotated[
        int | None, typer.Option(metavar="PID", min=1, help="The live pages of a process instead; as root.")
    ] = None,
    page_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of the pages in files.  [default: 2MiB]")
    ] = None,
    cores: Annotated[
        int | None, typer.Option(metavar="N", help="That hold lines; without it all of a socket.")
    ] = None,
    held: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What each L2 holds at a time; without it all of it.")
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Pages to swap for, listed as in --frames; 'free': free memory."),
    ] = None,
    swaps: Annotated[int, typer.Option(metavar="N", min=0, max=1000, help="At most so many.")] = 8,
    lines: Annotated[bool, typer.Option("--lines", help="In JSON also the lines in crowded sets.")] = False,
    root: Annotated[Path, typer.Option(metavar="DIR", help="Where proc/ is; of a captured tree.")] = Path(
        "/"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Say which lines of a set of pages conflict in snoop filter and caches, and which pages to swap.

    Counted from physical addresses alone: lines beyond the ways of their set cannot be held at the same time,
    whatever the order of accesses.
    """
    if (frames is None) == (pid is None):
        raise UsageError("conflicts: give either --frames FILE or --pid PID")
    if lines and not as_json:
        raise UsageError("--lines: add --json, which lists them")
    socket = socket_of(load_machine(machine))
    held_bytes = None if held is None else parse_size(held, "--held")
    pages = read_pages(frames, page_size, "--frames") if frames is not None else read_process(pid or 0, root)
    prediction = predict(socket, pages, cores, held_bytes)
    found = None
    if pool is not None:
        if pool == FREE:
            others = read_free(parse_page_size(page_size or "2MiB", "--page-size"), pages, root)
        else:
            others = read_pages(Path(pool), page_size, "--pool")
        found = find_swaps(socket, pages, others, swaps, cores, held_bytes)
    if as_json:
        typer.echo(json.dumps(to_json(prediction, found, lines), indent=2))
    else:
        typer.echo(render(prediction, found), nl=False)


def to_json(p: Prediction, swaps: tuple[Swap, ...] | None, lines: bool) -> dict[str, Any]:
    """Everything by name; sizes in bytes, addresses as numbers, lines of 64 B."""
    result: dict[str, Any] = {
        "schema": "pagelens conflicts",
        "version": SCHEMA_VERSION,
        "machine": p.socket.name,
        "cores": p.cores,
        "held_bytes": p.held_bytes,
        "pages": len(p.pages.sizes),
        "bytes": int(p.pages.sizes.sum()),
        "frames_of": "guest" if VIRTUAL_MACHINE in p.pages.notes else "machine",
        "windows": p.windows,
        "shares": {
            "mean": float(p.shares.mean()),
            "worst": float(p.shares.max()),
            "starts": p.starts.tolist(),
            "of_each": p.shares.tolist(),
        },
        "worst_start": int(p.starts[p.worst]),
        "structures": [{**asdict(count), "share": count.share} for count in p.counts],
        "by_page": [asdict(page) for page in p.by_page],
        "swaps": None if swaps is None else [asdict(swap) for swap in swaps],
        "notes": [*p.pages.notes, *p.socket.notes],
    }
    if lines:
        result["lines"] = p.crowded_lines()
    return result
