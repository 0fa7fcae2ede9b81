"""`pagelens measure`: Measure how this machine's speed depends on the frames that a program gets."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from pagelens.cli.commands.measure_io import measure_io
from pagelens.cli.commands.measure_numa import measure_numa
from pagelens.cli.commands.measure_tiers import tiers
from pagelens.cli.options import Json, Output, Quiet
from pagelens.cli.source import OUTPUT
from pagelens.cli.text.measure import render
from pagelens.errors import Interrupted
from pagelens.machine import choose_machine
from pagelens.measure import (
    BENCHMARKS,
    MOST_PREDICTED,
    Report,
    Request,
    measure_benchmark,
    to_json,
    write_outputs,
)
from pagelens.output_directory import claim_directory
from pagelens.progress import progress_bar

_RARE = "Rarely needed"


def _count(text: str) -> tuple[type, Any]:
    """Return the option --n of a benchmark."""
    return int, Option("--n", min=1, max=1 << 40, metavar="N", help=text)


# The settings of single benchmarks. measure/benchmarks.py says which benchmark has which.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "stream": {
        "n": _count("How many doubles each array has; by default four times the caches."),
        "offset": (
            str,
            Option(
                metavar="DOUBLES", help="The offset between arrays: 512, or FIRST:LAST:STEP; by default 0."
            ),
        ),
        "kernels": (
            str,
            Option(metavar="A,B", help="Which of copy, scale, add, triad to run; by default all."),
        ),
    },
    "latency": {
        "footprint": (
            str,
            Option(metavar="SIZES", help="The sizes of memory to walk; by default 16KiB,32KiB,...,256MiB."),
        ),
        "stride": (
            str,
            Option(
                metavar="SIZE", help="The step from load to load, by default a line; 4KiB shows translation."
            ),
        ),
    },
    "gups": {
        "table": (str, Option(metavar="SIZE", help="The size of the table, a power of two; by default 1GiB."))
    },
    "l2sum": {
        "block": (
            str,
            Option(
                metavar="SIZE",
                help="The block that each core sums again and again; by default 1,000,000 bytes.",
            ),
        )
    },
    "dgemm": {
        "n": _count("The order of the matrices; by default 1536."),
        "blas": (str, Option(metavar="LIBRARY", help="A BLAS by name or path; by default the system's.")),
    },
    "cg": {
        "n": _count("How many points each side of the grid has; by default 96."),
    },
    "conflict": {
        "distance": (
            str,
            Option(metavar="SIZES", help="The distance between the streams; by default 2MiB,4MiB,...,64MiB."),
        )
    },
}
_SHARED_SETTINGS: Mapping[str, Any] = {
    "isa": (
        str,
        Option(metavar="NAME", help="The instructions: sse2, avx2, avx512 or auto.", rich_help_panel=_RARE),
    ),
    "stores": (
        str,
        Option(metavar="KIND", help="The stores: plain, nontemporal or auto.", rich_help_panel=_RARE),
    ),
    "order": (
        str,
        Option(
            metavar="KIND",
            help="The order in which the arrays are walked: in-turn as STREAM does, "
            "spread over each thread's share, or auto.",
            rich_help_panel=_RARE,
        ),
    ),
}
_EXAMPLES = {
    "stream": "pagelens measure stream --n 2000896 --offset 0:32768:512 --kernels triad --trials 5",
    "latency": "pagelens measure latency --page-size 4k,2m",
    "gups": "pagelens measure gups --table 1GiB --page-size 4k,2m,1g",
    "l2sum": "pagelens measure l2sum --machine skx-8160 --json",
    "dgemm": "pagelens measure dgemm --n 2000 --trials 10",
    "cg": "pagelens measure cg --n 64 --page-size 4k,thp",
    "conflict": "pagelens measure conflict --distance 1MiB,2MiB",
}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Measure how this machine's speed depends on the frames that a program gets.\n\n"
    "Each trial gets other frames (another page map). This needs no rights. As root, you also see the frames "
    "and hardware counters, and can use pools of large pages.",
    epilog="Example: pagelens measure stream --trials 50. docs/measure.md says what each benchmark does, "
    "what its figures count, and how to read them.",
)
app.command(epilog="Example: pagelens measure tiers --array 4GiB")(tiers)
app.command("numa", epilog="Example: pagelens measure numa --size 256MiB")(measure_numa)
app.command("io", epilog="Example: pagelens measure io /scratch/me")(measure_io)


def _common(
    trials: Annotated[
        int,
        Option(min=1, max=10_000, metavar="N", help="How many page maps to measure, each of them twice."),
    ] = 20,
    page_size: Annotated[
        str, Option(metavar="A,B", help="The page sizes: 4k, thp, 2m, 1g; several take turns.")
    ] = "4k",
    cpus: Annotated[
        str | None, Option(metavar="LIST", help="The processors to run on, as 0-3,8; by default all.")
    ] = None,
    machine: Annotated[
        str | None,
        Option(metavar="NAME", help="The machine for predictions and counters; by default this one."),
    ] = None,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
    repeats: Annotated[
        int,
        Option(
            min=1,
            max=1000,
            metavar="N",
            help="How many runs each visit of a page map has; the best counts.",
            rich_help_panel=_RARE,
        ),
    ] = 3,
    predict: Annotated[
        bool | None,
        Option(
            "--predict/--no-predict",
            help=f"Replay each trial's frames on the machine's model. Sweeps of more than {MOST_PREDICTED} "
            "points are predicted only if asked for.",
            show_default=False,
            rich_help_panel=_RARE,
        ),
    ] = None,
    stir: Annotated[
        bool,
        Option(
            "--stir/--no-stir",
            help="Put free frames into another order before each trial.",
            rich_help_panel=_RARE,
        ),
    ] = True,
    scatter: Annotated[
        float,
        Option(
            min=0,
            max=0.9,
            metavar="SHARE",
            help="The share of the reordered memory that is held while a trial's memory "
            "is mapped; more is like an older node.",
            rich_help_panel=_RARE,
        ),
    ] = 0.5,
    retries: Annotated[
        int,
        Option(
            min=0,
            max=100,
            metavar="N",
            help="How often a visit is repeated if other work disturbs it.",
            rich_help_panel=_RARE,
        ),
    ] = 3,
    seed: Annotated[
        int,
        Option(
            min=0, max=2**31 - 1, metavar="N", help="The seed of every random draw.", rich_help_panel=_RARE
        ),
    ] = 1,
) -> None:
    """Declare the options of every benchmark."""


def _command(benchmark: str) -> Callable[..., None]:
    """Return the command of one benchmark, with its own settings and those of all."""

    def measure(**options: Any) -> None:
        given = {name: options.pop(name) for name in own}
        _measure(benchmark, given, **options)

    own = dict(_own_parameters(benchmark))
    parameters = [*own.values(), *inspect.signature(_common).parameters.values()]
    # Typer reads names, types and defaults from the signature.
    measure.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    measure.__annotations__ = {each.name: each.annotation for each in parameters}
    return measure


def _own_parameters(benchmark: str) -> Iterator[tuple[str, inspect.Parameter]]:
    _, names = BENCHMARKS[benchmark]
    known = {**_SETTINGS[benchmark], **_SHARED_SETTINGS}
    for name, (kind, option) in known.items():
        if name in names:
            yield (
                name,
                inspect.Parameter(
                    name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=None,
                    annotation=Annotated[kind | None, option],
                ),
            )


def _measure(
    benchmark: str,
    given: Mapping[str, Any],
    *,
    machine: str | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    def progress(what: str) -> AbstractContextManager[Report]:
        return progress_bar(quiet or not what, what)

    request = Request(benchmark, given, choose_machine(machine).machine, **settings)
    with claim_directory(output or OUTPUT / f"measure-{benchmark}") as directory:
        done = measure_benchmark(request, progress)
        text = json.dumps(to_json(done.measured, list(done.notes), dict(done.settings)), indent=1)
        if as_json:
            typer.echo(text)
        elif not quiet:
            typer.echo(render(done.measured, list(done.notes)), nl=False)
        write_outputs(done.measured, text, directory)  # last: a full disk takes nothing from the terminal
    if not as_json and not quiet:
        typer.echo(f"\nTables and figure: {directory}")
    if done.stopped:
        raise Interrupted(done.stopped)


for _name, (_make, _) in BENCHMARKS.items():
    app.command(_name, help=_make.__doc__, epilog=f"Example: {_EXAMPLES[_name]}")(_command(_name))
