"""`pagelens measure numa`: measures latency and bandwidth from every NUMA node to every node's memory."""

import json
from typing import Annotated

import typer
from typer import Option

from pagelens.cli.options import Json, Output, Quiet
from pagelens.cli.source import OUTPUT
from pagelens.cli.text.measure_numa import render_numa
from pagelens.files import write_whole
from pagelens.measure import measure_nodes
from pagelens.output_directory import claim_directory
from pagelens.progress import progress_bar
from pagelens.units import parse_size


def measure_numa(
    size: Annotated[
        str | None,
        Option(
            metavar="SIZE", help="The memory that is read on each node; by default four times the caches."
        ),
    ] = None,
    repeats: Annotated[
        int, Option(min=1, max=1000, metavar="N", help="How often everything is measured. The best counts.")
    ] = 5,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure latency and bandwidth from every NUMA node to every node's memory.

    First each pair of nodes is measured alone, then all nodes at once. `machines
    detect --measure` puts the result into a machine file.
    """
    with claim_directory(output or OUTPUT / "measure-numa") as directory:
        with progress_bar(quiet, "pairs") as progress:
            found = measure_nodes(None if size is None else parse_size(size), repeats, progress)
        text = json.dumps(found.to_json(), indent=1)
        if as_json:
            typer.echo(text)
        elif not quiet:
            typer.echo("\n".join(render_numa(found)))
        write_whole(directory / "measure.json", lambda path: path.write_text(text + "\n"))
