"""`pagelens measure tiers`: finds the device, measures its two memories, prints and keeps what came out."""

import json
from typing import Annotated

import typer
from typer import Option

from pagelens import _probes
from pagelens.cli.options import Json, Output, Quiet
from pagelens.cli.source import OUTPUT
from pagelens.files import write_whole
from pagelens.measure.tiers import NAME, find_device, machine_file, measure, parse_array, render, to_json
from pagelens.output_directory import claim_directory
from pagelens.progress import progress_bar


def tiers(
    array: Annotated[
        str | None,
        Option(
            metavar="SIZE", help="The size of each array; there are four in each memory. By default 1GiB."
        ),
    ] = None,
    trials: Annotated[
        int, Option(min=1, max=10_000, metavar="N", help="How often everything is measured.")
    ] = 20,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Annotated[
        int, Option(min=0, max=2**31 - 1, metavar="N", help="The seed of every random draw.")
    ] = 1,
) -> None:
    """Measure a GPU's own memory and its host's by STREAM's loops and a chase of pointers."""
    device = find_device()
    host_bytes = _probes.available_bytes()
    array_bytes = parse_array(array, device.facts, host_bytes)
    with claim_directory(output or OUTPUT / "measure-tiers") as directory:
        with progress_bar(quiet, "rounds") as progress:
            found = measure(device, array_bytes, trials, seed, lambda done: progress(done, trials))
        machine, note = machine_file(found, host_bytes, directory / NAME)
        notes = [note]
        text = json.dumps(to_json(found, notes, seed), indent=1)
        if as_json:
            typer.echo(text)
        elif not quiet:
            typer.echo(render(found, notes), nl=False)
        write_whole(directory / "measure.json", lambda path: path.write_text(text + "\n"))
        if machine:
            write_whole(directory / NAME, lambda path: path.write_text(machine))
    if not as_json and not quiet:
        typer.echo(f"\nJSON: {directory / 'measure.json'}")
