"""`pagelens lab validate`: Compare the model of the allocator with a guest, step by step."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer

from pagelens.cli.commands.lab.options import DEFAULT_MACHINE, Cache, KernelName, MachineName, Memory
from pagelens.cli.options import Json, Seed
from pagelens.cli.text.lab import compared_row
from pagelens.errors import Failure, Interrupted
from pagelens.lab import (
    DEFAULT_HISTORIES,
    DEFAULT_KERNEL,
    Compared,
    Validation,
    failures,
    find_kernel,
    validate_model,
)
from pagelens.machine import load_machine
from pagelens.units import parse_size

commands = typer.Typer()


@commands.command("validate", epilog="  pagelens lab validate --kernel 6.1 --history 'age(jobs=2); compact'")
def validate_command(
    memory: Memory = "2GiB",
    cache: Cache = "256MiB",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="The memory of the program that runs after each step.")
    ] = "102MiB",
    history: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEPS", help="Check this history instead of the default ones; can be repeated."
        ),
    ] = None,
    hole: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="How much of the middle of the memory is left out, as firmware does for devices.",
        ),
    ] = "0B",
    kernel: KernelName = DEFAULT_KERNEL,
    machine: MachineName = DEFAULT_MACHINE,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Run the same histories in a guest and in the model of the allocator, and compare them step by step."""
    setup = Validation(
        load_machine(machine),
        find_kernel(kernel),
        parse_size(memory, "--memory"),
        parse_size(cache, "--cache"),
        parse_size(size, "--size"),
        history or DEFAULT_HISTORIES,
        seed,
        parse_size(hole, "--hole"),
    )

    def report(row: Compared) -> None:
        if not as_json:
            print(compared_row(row), flush=True)

    try:
        rows = validate_model(setup, report)
    except KeyboardInterrupt:
        raise Interrupted("lab: interrupted; the guest is gone") from None
    if as_json:
        print(json.dumps([_row(row) for row in rows], indent=2))
    if found := failures(rows):
        raise Failure(f"lab validate: {'; '.join(found)}")


def _row(row: Compared) -> dict[str, Any]:
    return {
        key: value.tolist() if hasattr(value, "tolist") else value
        for key, value in dataclasses.asdict(row).items()
    }
