"""`pagelens measure tiers`: finds the device, measures its two memories, prints and keeps what came out."""

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from pagelens import _probes
from pagelens.cli.source import OUTPUT
from pagelens.errors import UsageError
from pagelens.files import write_whole
from pagelens.measure.tiers.device import Facts, find_device
from pagelens.measure.tiers.machine_file import NAME, machine_file
from pagelens.measure.tiers.measurement import ARRAYS, LINE_BYTES, Measured, measure
from pagelens.measure.tiers.report import SIMULATED, render, to_json
from pagelens.output_directory import claim_directory
from pagelens.progress import progress_bar
from pagelens.units import format_binary_size, format_size, parse_size

_ARRAY = 1 << 30
_OVER_CACHE = 4  # STREAM's rule
_LEFT_FREE = 0.1  # of either memory


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
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder of the results; by default pagelens-out/measure-tiers.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Write the files and print only errors.")] = False,
    seed: Annotated[
        int, Option(min=0, max=2**31 - 1, metavar="N", help="The seed of every random draw.")
    ] = 1,
) -> None:
    """Measure a GPU's own memory and its host's by STREAM's loops and a chase of pointers."""
    device = find_device()
    host_bytes = _probes.available_bytes()
    array_bytes = _array_bytes(array, device.facts, host_bytes)
    with claim_directory(output or OUTPUT / "measure-tiers") as directory:
        with progress_bar(quiet, "rounds") as progress:
            found = measure(device, array_bytes, trials, seed, lambda done: progress(done, trials))
        machine, note = _machine_file(found, host_bytes, directory / NAME)
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


def _array_bytes(text: str | None, facts: Facts, host_bytes: int) -> int:
    """Whole lines. Raises UsageError for less than STREAM's rule wants, or more than there is room for."""
    asked = parse_size(text, "--array") if text is not None else _ARRAY
    least = max(_OVER_CACHE * facts.cache_bytes, 2 * LINE_BYTES)
    room = host_bytes if facts.simulator else min(host_bytes, facts.free_bytes)
    # The simulator's two memories are both the host's.
    most = int((1 - _LEFT_FREE) * room) // (ARRAYS * (2 if facts.simulator else 1))
    if not least <= asked <= most:
        raise UsageError(
            f"--array {text or format_binary_size(_ARRAY)}: each of {ARRAYS} arrays in either memory has "
            f"{format_size(least)} (four times the device's last cache) to {format_size(most)} (what is free)"
        )
    return asked // LINE_BYTES * LINE_BYTES


def _machine_file(found: Measured, host_bytes: int, path: Path) -> tuple[str, str]:
    """The file's text, empty where there can be none, and a note: what was measured is kept all the same."""
    if found.facts.simulator:
        return "", (
            f"{SIMULATED[0].upper()}{SIMULATED[1:]}. The kernels' answers are right; no machine file is "
            "written."
        )
    try:
        text = machine_file(found, host_bytes)
    except UsageError as error:
        return "", f"No machine file is written: the model has no place for this device ({error})."
    return text, f"Machine file: {path}; `pagelens place --machine {path} -- ./app` plans for this device."
