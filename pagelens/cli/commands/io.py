"""`pagelens io`: Find out what a program's reads and writes cost, and what would make them faster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagelens.cli.options import Json, MachineName, Output, Quiet
from pagelens.cli.source import OUTPUT
from pagelens.errors import UsageError
from pagelens.progress import progress_bar

if TYPE_CHECKING:
    from pagelens.io import Advice, Recording
    from pagelens.machine import Machine

_SECONDS = 15.0  # of a measurement that nobody asked for

EXAMPLES = """Examples:

  pagelens io explain -- ./app args

  pagelens io record -o app.plio -- ./app args

  mpirun -n 4 pagelens io record -o app.%r.plio -- ./app args
"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="Find out what a program's reads and writes cost, and what would make them faster.",
)

_PROGRAM = {"allow_interspersed_args": False}
Command = Annotated[
    list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="The program, and its arguments.")
]
Log = Annotated[Path, typer.Argument(metavar="RECORDING", help="A file that `pagelens io record` wrote.")]


@app.command(context_settings=_PROGRAM, epilog="Example: pagelens io record -o app.plio -- ./app args")
def record(
    command: Command,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The recording to write; %r is the MPI rank, %p the process. By default PROGRAM.plio.",
        ),
    ] = "",
) -> None:
    """Record a program's operations on files, at less than a microsecond each.

    The program keeps its output, its exit status and its working directory.
    """
    from pagelens.cli.text.io import summary
    from pagelens.host import end_like
    from pagelens.io import gaps, record_program

    with progress_bar(what="recording") as bar:
        recorded = record_program(command, output, bar.recorded)
    _say(*recorded.notes, *gaps(recorded.recording))
    for line in summary(recorded.recording, recorded.path):
        print(f"pagelens: {line}", file=sys.stderr)
    raise typer.Exit(end_like(recorded.exit_status))


@app.command(epilog="Example: pagelens io info app.plio")
def info(recording: Log, as_json: Json = False) -> None:
    """Print what a recording holds: its files, its operations and their sizes."""
    import json

    from pagelens.cli.text.io import info_lines
    from pagelens.io import describe, open_recording

    facts = describe(open_recording(recording))
    typer.echo(json.dumps(facts.to_json(), indent=1) if as_json else "\n".join(info_lines(facts)))


@app.command("explain", epilog="Example: pagelens io explain app.plio --on cori-knl-cache")
def explain_command(
    target: Annotated[
        list[str],
        typer.Argument(
            metavar="[RECORDING | -- PROGRAM ARGS...]",
            help="A recording, or a program that is recorded first.",
        ),
    ],
    machine: MachineName = None,
    on: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also predict the operations on this machine."),
    ] = None,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a program's operations on files cost, and what would make them faster.

    The costs of operations are those of --machine, or are measured here first
    (some 30 seconds, once for each file system).
    """
    import json

    from pagelens.cli.text.io_explain import answer, outputs_line, render_explanation
    from pagelens.files import write_whole
    from pagelens.io import explain_recording, render_page
    from pagelens.output_directory import claim_directory

    recording, name = _recording(target, quiet)
    here = _machine_with_io(machine, recording, quiet)
    elsewhere = None if on is None else _with_io(on, "--on")
    found = explain_recording(recording, here, elsewhere)
    with claim_directory(output or OUTPUT / f"io-{name}") as directory:
        text = json.dumps(found.to_json(), indent=1)
        if as_json:
            typer.echo(text)
        elif not quiet:
            typer.echo("\n".join(render_explanation(found)))
        page = render_page(found, recording, answer(found))
        write_whole(directory / "report.html", lambda path: path.write_text(page))
        write_whole(directory / "explanation.json", lambda path: path.write_text(text + "\n"))
        recording.write(directory / "recording.plio")
    if not as_json and not quiet:
        typer.echo(f"\n{outputs_line(directory, found)}")


def _say(*lines: str) -> None:
    """Print notes beside the program's own output."""
    from pagelens.cli.text.tables import wrap

    for line in lines:
        print("\n".join(wrap(f"pagelens: {line}", hanging="  ")), file=sys.stderr)


def _recording(target: list[str], quiet: bool) -> tuple[Recording, str]:
    """Return the recording, and a short name for it.

    The command line names a recording, or a program to record.
    """
    import tempfile

    from pagelens.io import open_recording, record_program

    path = Path(target[0])
    if len(target) == 1 and (path.suffix == ".plio" or path.is_dir()):
        return open_recording(path), path.stem
    with (
        tempfile.TemporaryDirectory(prefix="pagelens-io-") as folder,
        progress_bar(quiet, "recording") as bar,
    ):
        recorded = record_program(target, str(Path(folder) / "it.plio"), bar.recorded)
    _say(*recorded.notes)  # the answer names the gaps
    if recorded.exit_status:
        _say(f"the program ended with status {recorded.exit_status}")
    return recorded.recording, path.name


def _with_io(name: str, option: str) -> Machine:
    from pagelens.machine import load_machine

    machine = load_machine(name)
    if machine.io is None:
        raise UsageError(
            f"{option} {name}: its file has no section [io]; `pagelens measure io DIR` on it makes one"
        )
    return machine


def _machine_with_io(name: str | None, recording: Recording, quiet: bool) -> Machine:
    """Return the named machine, or else this one.

    This machine's file system is measured, unless it was measured before.
    """
    if name is not None:
        return _with_io(name, "--machine")
    from pagelens.cli.commands.measure_io import keep
    from pagelens.io import busiest_folder
    from pagelens.machine import choose_machine, parse_machine, read_machine_file
    from pagelens.measure.files import file_with_io, kept_file, measure_folder

    found = busiest_folder(recording)
    if found is None:
        raise UsageError(
            "recording: none of its folders is here; name a machine with [io] by --machine, as "
            "`pagelens measure io DIR` writes it"
        )
    folder, device = found
    kept = kept_file(device)
    try:
        machine = read_machine_file(kept)
    except UsageError:
        pass
    else:
        # Earlier versions measured less.
        if machine.io is not None and machine.io.replacing_close is not None:
            _say(f"{kept} says what operations take; `pagelens measure io` renews it")
            return machine
    _say(f"measuring what operations take on {folder}, once, for some {_SECONDS:.0f} seconds")
    with progress_bar(quiet, "series") as bar:
        text = file_with_io(choose_machine(None).text, measure_folder(folder, _SECONDS, bar))
    keep(text, device)
    return parse_machine(text.encode(), "this machine")


@app.command("run", context_settings=_PROGRAM, epilog="Example: pagelens io run --compare 3 -- ./app args")
def run_command(
    command: Command,
    apply: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="direct: O_DIRECT for large writes. hints: only the options below."
        ),
    ] = "direct",
    request: Annotated[
        str, typer.Option(metavar="SIZE", help="Make writes of this size and more direct.")
    ] = "1MiB",
    threads: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Let N threads share a direct write of 2 MiB or more within a file."
        ),
    ] = 1,
    buffer: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Merge small writes of stdio by buffers of this size."),
    ] = None,
    hint: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A hint for MPI-IO (ROMIO); can be repeated."),
    ] = None,
    hdf5: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SIZE", help="Properties of HDF5: alignment=SIZE of objects, cache=SIZE for chunks."
        ),
    ] = None,
    leave_cores: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Leave the last N processors to the kernel."),
    ] = 0,
    cores: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Bind the program to these processors, such as 0-3,8."),
    ] = None,
    compare: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            metavar="N",
            help="Run the program N times each way, and compare the gain with what --machine predicts.",
        ),
    ] = 0,
    machine: MachineName = None,
    quiet: Quiet = False,
) -> None:
    """Make a program's large writes direct, give other hints, or measure what that gains.

    A preloaded library makes the writes direct. What it cannot prove safe stays unchanged.
    --compare records the program first, and also compares the files it writes.
    """
    from pagelens.host import all_but, named_processors
    from pagelens.io import (
        LEAST,
        MOST,
        MOST_THREADS,
        Advice,
        become_applied,
        parse_buffer,
        parse_hint,
        parse_property,
        without_effect,
    )
    from pagelens.units import parse_size

    if cores is not None and leave_cores:
        raise UsageError(f"--cores {cores}: not with --leave-cores; name the processors that are to be used")
    bound: list[int] = []
    if cores is not None:
        bound = named_processors(cores, "--cores")
    elif leave_cores:
        bound = all_but(leave_cores)
    if apply not in ("direct", "hints") or (apply == "hints" and not (buffer or hint or hdf5 or bound)):
        raise UsageError(
            f"--apply {apply}: direct, or hints with --buffer, --hint, --hdf5, --cores or --leave-cores"
        )
    if threads > MOST_THREADS or (threads > 1 and apply == "hints"):
        raise UsageError(f"--threads {threads}: 1 to {MOST_THREADS}, and only with --apply direct")
    smallest = parse_size(request, "--request")
    if not LEAST <= smallest <= MOST:
        raise UsageError(f"--request {request}: 64 KiB to 1 GiB, such as 1MiB")
    advice = Advice(
        smallest if apply == "direct" else None,
        tuple(map(parse_hint, hint or ())),
        tuple(bound),
        tuple(map(parse_property, hdf5 or ())),
        threads,
        None if buffer is None else parse_buffer(buffer),
    )
    for line in without_effect(command) if advice.preloads else ():
        print(f"pagelens io run: {line}", file=sys.stderr)
    if not compare:
        become_applied(command, advice)
    raise typer.Exit(_compared(command, advice, compare, machine, quiet))


def _compared(command: list[str], advice: Advice, rounds: int, machine: str | None, quiet: bool) -> int:
    from pagelens.cli.text.io_compare import render_comparison
    from pagelens.io import compare, saved_by_advice, written_files

    recording, _ = _recording(command, quiet)
    io = _machine_with_io(machine, recording, quiet).io
    assert io is not None
    with progress_bar(quiet, "runs") as bar:
        found = compare(command, advice, rounds, written_files(recording), bar)
    saved = saved_by_advice(
        recording, io, advice.smallest, dict(advice.hdf5), advice.cores, advice.threads, advice.buffer
    )
    typer.echo("\n".join(render_comparison(found, saved, advice, rounds)))
    return 1 if found.unequal else 0


@app.command("import", epilog="Example: pagelens io import job.darshan -o job.plio")
def import_command(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A log of Darshan (DXT), strace or fio.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The recording to write; by default LOG.plio."),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="What the log is: darshan, fio or strace.")
    ] = None,
) -> None:
    """Turn another tool's log into a recording.

    Darshan's extended traces (DXT) need pydarshan: install pagelens with its extra, darshan.
    `strace -f -ttt -T -y -o LOG ./app` and `fio --write_iolog` make the others.
    """
    from pagelens.cli.text.io import summary
    from pagelens.io import FORMATS, import_log

    if form is not None and form not in FORMATS:
        raise UsageError(f"--format {form}: it is one of {', '.join(FORMATS)}")
    recording = import_log(log, form)
    path = output or log.with_name(f"{log.name}.plio")
    recording.write(path)
    for line in summary(recording, path):
        typer.echo(line)


@app.command("replay", epilog="Example: pagelens io replay app.plio /scratch/me")
def replay_command(
    recording: Log,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder for the scratch files.")],
    request: Annotated[
        str, typer.Option(metavar="SIZE", help="The size that requests are merged to.")
    ] = "1MiB",
    in_flight: Annotated[
        int,
        typer.Option(min=2, max=1024, metavar="N", help="How many recorded direct requests are in flight."),
    ] = 8,
    rounds: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="How often each way is replayed.")
    ] = 3,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a program's reads and writes again on scratch files, as they were and in other ways.

    This measures what `pagelens io explain` predicts, without the program. The
    ways take turns; medians are shown.
    """
    import json
    from dataclasses import asdict

    from pagelens.cli.text.io_replay import render_replay
    from pagelens.io import open_recording, replayable
    from pagelens.measure.files import read_file_system, replay, variants
    from pagelens.units import parse_size

    size = parse_size(request, "--request")
    if not 4096 <= size <= 1 << 30 or size % 4096:
        raise UsageError(f"--request {request}: a multiple of 4 KiB from 4 KiB to 1 GiB, such as 1MiB")
    transfers, lengths = replayable(open_recording(recording))
    if not transfers.height:
        raise UsageError(f"recording: {recording} has no reads, writes or syncs of files; record another run")
    if not folder.is_dir():
        raise UsageError(f"folder: {folder} is no folder; name one for the scratch files")
    with progress_bar(quiet, "replays") as bar:
        direct = read_file_system(folder).direct
        depth = in_flight if (transfers["flight"] > 0).any() else 1
        done = replay(transfers, lengths, folder, variants(size, direct, depth), rounds, bar)
    if as_json:
        typer.echo(
            json.dumps({"schema": "pagelens io replay", "version": 1, "ways": [asdict(way) for way in done]})
        )
    elif not quiet:
        typer.echo("\n".join(render_replay(done, rounds)))
