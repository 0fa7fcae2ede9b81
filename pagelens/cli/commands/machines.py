"""`pagelens machines`: List, show, check and detect the machines that are modelled."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelens.cli.text.tables import wrap
from pagelens.errors import Failure, UsageError
from pagelens.files import write_whole
from pagelens.machine import (
    Machine,
    choose_machine,
    list_lines,
    list_machines,
    load_machine,
    machine_lines,
    measured_file,
    missing_write_rates,
    parse_machine,
    read_machine_file,
    stated_values,
)
from pagelens.machine.detect import Description, System, detect_whole, with_measured_nodes
from pagelens.progress import progress_bar

SCHEMA_VERSION = 1  # of --json; a version only adds

EXAMPLES = """Examples:

  pagelens machines

  pagelens machines show skx-8160

  pagelens machines check mine.toml

  pagelens machines detect -o here.toml

  pagelens machines detect --measure
"""

app = typer.Typer(
    add_completion=False,
    epilog=EXAMPLES,
    help="List, show, check and detect the machines that are modelled.",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON: sizes in bytes, times in seconds.")]


@app.callback(invoke_without_command=True)
def list_command(context: typer.Context, as_json: Json = False) -> None:
    """List the machines that come with pagelens."""
    if context.invoked_subcommand is None:
        _list(as_json)


@app.command("list")
def list_named_command(as_json: Json = False) -> None:
    """List the machines that come with pagelens, as `pagelens machines` alone does."""
    _list(as_json)


def _list(as_json: bool) -> None:
    machines = {name: load_machine(name) for name in list_machines()}
    if as_json:
        _print_json({"machines": [_summary(machine) for machine in machines.values()]})
        return
    for line in list_lines(machines):
        typer.echo(line)
    what_next = "`pagelens machines show NAME` draws one; `explain --machine NAME` replays a program on it"
    typer.echo("\n".join(wrap(what_next)))


@app.command("show")
def show_command(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A name that is listed, this-machine, or a .toml file."),
    ],
    as_json: Json = False,
) -> None:
    """Draw a machine, and list what is stated of it, with units and sources."""
    machine = choose_machine(name).machine
    if as_json:
        _print_json(_summary(machine) | {"values": _values(machine)})
        return
    for line in machine_lines(machine):
        typer.echo(line)


@app.command("check")
def check_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A machine file, or a name that is listed.")],
    as_json: Json = False,
) -> None:
    """Read a machine file: exit status 0 if it is sound, else one line that names file, line and key."""
    machine = read_machine_file(Path(file)) if Path(file).exists() else load_machine(file)
    kinds = Counter(stated.value.label for stated in stated_values(machine))
    if as_json:
        _print_json(_summary(machine) | {"file": file, "origins": dict(kinds)})
        return
    typer.echo(
        f"{file}: sound; {machine.name}, mode {machine.mode}; {kinds.total()} values, of which "
        f"{kinds['source']} documented, {kinds['input']} calibration, {kinds['assumed']} assumed"
    )
    for line in missing_write_rates(machine):
        typer.echo(f"{file}: {line}", err=True)


@app.command("detect")
def detect_command(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the machine file there instead of printing it."
        ),
    ] = None,
    root: Annotated[
        Path, typer.Option(metavar="DIR", help="Read a captured tree of /proc and /sys instead.")
    ] = Path("/"),
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Also measure bandwidth and latencies, and keep the file for `explain`."
        ),
    ] = False,
) -> None:
    """Write a machine file for this machine.

    It reads /proc, /sys, CPUID, hwloc if it is installed, and DMI as root. What
    they do not say is marked as assumed. The file describes all NUMA nodes
    if several have processors, and one socket otherwise. In a virtual machine, the
    frames are the guest's.
    """
    found = detect_whole(System(root))
    if measure:
        output = output or measured_file()
        _measure(found, root, output)
    text = found.to_toml()
    machine = parse_machine(text.encode(), str(output or "machine"))
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(output, lambda partial: partial.write_text(text))
        typer.echo(
            f"{output}: {machine.title}; mode {machine.mode}. `pagelens machines show {output}` draws it."
        )
    if machine.hypervisor:
        typer.echo(
            f"This is a guest of {machine.hypervisor}: its frames are the guest's, not those of the memory.",
            err=True,
        )


def _measure(found: Description, root: Path, output: Path) -> None:
    """Replace what was read or assumed by what can be measured here."""
    if root != Path("/"):
        raise UsageError(f"--measure: --root {root} is a captured tree, which has no speed; leave one out")
    machine = parse_machine(found.to_toml().encode(), "this machine")
    if machine.fast_memory is not None:
        raise UsageError(
            "--measure: this machine has two memories, and which one a benchmark meets is not known; "
            "leave it out, and state the values of `pagelens measure` in the file"
        )
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"--output: cannot make {output.parent} ({error.strerror}); name another") from None
    from pagelens.measure import measure_nodes, measured_sections  # no other command here needs it

    measured, tlbs = measured_sections(machine, lambda what: progress_bar(not what, what))
    for section, values in measured.items():
        found.sections.setdefault(section, {}).update(values)
    width = measured["cores"].get("instructions_per_cycle")
    if width is not None and machine.cores.instructions_per_cycle.assumed is None:
        typer.echo(f"cores.instructions_per_cycle is {width.note}.", err=True)
    found.tlbs = tlbs or found.tlbs
    if machine.numa is not None:
        with progress_bar(False, "pairs of nodes") as progress:
            matrix = measure_nodes(report=progress, whole=True)
        found.sections |= with_measured_nodes(
            found.sections, matrix.columns, matrix.latency_s, matrix.bandwidth
        )


def _summary(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "title": machine.title,
        "mode": machine.mode,
        "base": machine.base,
        "sections": list(machine.sections),
        "cores": machine.cores.count.value,
        "fast_memory_bytes": machine.fast_memory.size.value if machine.fast_memory else None,
        "memory_bytes": machine.ddr.size.value,
    }


def _values(machine: Machine) -> list[dict[str, Any]]:
    return [
        {
            "name": stated.name,
            "value": plain
            if isinstance(plain := stated.value.value, int | float | str)
            else stated.value.shown,
            "shown": stated.value.shown,
            "origin": stated.value.label,
            "note": stated.value.origin,
        }
        for stated in stated_values(machine)
    ]


def _print_json(record: dict[str, Any]) -> None:
    typer.echo(json.dumps({"schema": "pagelens machines", "version": SCHEMA_VERSION} | record, indent=1))
