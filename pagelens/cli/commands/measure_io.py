"""`pagelens measure io`: measures what operations on files take, and writes a machine file with [io]."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from pagelens.cli.options import Json, Output, Quiet
from pagelens.cli.source import OUTPUT
from pagelens.cli.text.measure_io import render_io
from pagelens.files import write_whole
from pagelens.machine import Machine, choose_machine, parse_machine
from pagelens.measure.files import file_with_io, kept_file, measure_folder
from pagelens.output_directory import claim_directory
from pagelens.progress import progress_bar

_NAME = "machine.toml"


def measure_io(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder on the file system to measure.")],
    seconds: Annotated[
        float, Option(min=0.1, max=3600, metavar="SECONDS", help="About how long to measure.")
    ] = 30.0,
    machine: Annotated[
        str | None,
        Option(metavar="NAME", help="The machine file that gets the section io; by default this machine's."),
    ] = None,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what reads, writes and other operations on files take in a folder.

    It writes up to 512 MiB of scratch files there, and removes them. `pagelens io
    explain` uses the result.
    """
    import json

    chosen = choose_machine(machine)
    text = chosen.text or _over(machine, chosen.machine)
    with claim_directory(output or OUTPUT / "measure-io") as directory:
        with progress_bar(quiet, "series") as progress:
            measured = measure_folder(folder, seconds, progress)
        with_io = file_with_io(text, measured)
        io = parse_machine(with_io.encode(), _NAME).io
        assert io is not None
        if as_json:
            typer.echo(json.dumps(measured.to_json(), indent=1))
        elif not quiet:
            typer.echo("\n".join(render_io(io, measured.folder, measured.notes)))
        write_whole(directory / _NAME, lambda path: path.write_text(with_io))
        write_whole(
            directory / "measure.json", lambda path: path.write_text(json.dumps(measured.to_json(), indent=1))
        )
        if machine is None:
            keep(with_io, measured.file_system.device)
    if not as_json and not quiet:
        typer.echo(f"\nMachine file: {directory / _NAME}")


def _over(name: str | None, machine: Machine) -> str:
    """Return a machine file that is based on the one that was named."""
    return (
        f'schema = 1\nbase = "{name}"\nname = "{machine.name}-io"\ntitle = "{machine.title}"\n'
        f'mode = "{machine.mode}"\n'
    )


def keep(text: str, device: int) -> None:
    """Keep the machine file for `pagelens io explain`. If that fails, the command measures again."""
    path = kept_file(device)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        return
