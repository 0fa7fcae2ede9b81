"""`pagelens measure`: Measure this machine: each trial has a page map of its own, and the result is a distribution."""

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated

import typer
from typer import Argument, Option

from pagelens import _probes
from pagelens.cli.commands.measure_tiers import OPTIONS, TIERS, measure_tiers
from pagelens.cli.measure_choices import cpus_of
from pagelens.cli.measure_options import (
    Array,
    Blas,
    Block,
    Distance,
    Footprint,
    Isa,
    Kernels,
    N,
    Offset,
    Order,
    Stores,
    Stride,
    Table,
)
from pagelens.cli.progress import progress_bar
from pagelens.cli.source import OUTPUT
from pagelens.cli.text.measure import render
from pagelens.errors import Interrupted, UsageError
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.interrupts import ctrl_c_sets
from pagelens.machine import Machine
from pagelens.machine.chosen import choose_machine
from pagelens.measure.counters import HardwareCounters
from pagelens.measure.kernels import KERNELS
from pagelens.measure.outputs import to_json, write_outputs
from pagelens.measure.pages import PageSize, parse_page_sizes, reserved
from pagelens.measure.plan import Model, Plan, Settings
from pagelens.measure.results import evaluate
from pagelens.measure.trials import Setup, Trial, run_trials
from pagelens.output_directory import claim_directory
from pagelens.spelling import nearest
from pagelens.units import format_size

EXAMPLES = """Examples:

  pagelens measure stream --trials 50

  pagelens measure stream --n 2000896 --offset 0:32768:512 --kernels triad --trials 5

  pagelens measure latency --page-size 4k,2m

  pagelens measure gups --table 1GiB --page-size 4k,2m,1g

  pagelens measure l2sum --machine skx-8160 --json

  pagelens measure tiers

docs/measure.md says what each kernel does, what its figures count, and how to read them.
"""

MOST_PREDICTED = 16  # points, unless asked for: each is a replay a trial
_BALLAST = 4  # as large as so many trials: docs/measure.md has what it does
_LEFT_FREE = 0.1  # of the memory that is available

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def measure(
    context: typer.Context,
    kernel: Annotated[str, Argument(metavar="KERNEL", help=f"One of {', '.join((*KERNELS, TIERS))}.")],
    trials: Annotated[
        int, Option(min=1, max=10_000, metavar="N", help="Page maps, each visited twice; rounds of tiers.")
    ] = 20,
    page_size: Annotated[str, Option(metavar="A,B", help="4k, thp, 2m, 1g; several take turns.")] = "4k",
    repeats: Annotated[
        int, Option(min=1, max=1000, metavar="N", help="Of a kernel in a visit; the best counts.")
    ] = 3,
    cpus: Annotated[
        str | None, Option(metavar="LIST", help="Processors to run on: 0-3,8. Without it, all.")
    ] = None,
    n: N = None,
    offset: Offset = None,
    kernels: Kernels = None,
    footprint: Footprint = None,
    stride: Stride = None,
    table: Table = None,
    block: Block = None,
    distance: Distance = None,
    blas: Blas = None,
    isa: Isa = None,
    stores: Stores = None,
    order: Order = None,
    array: Array = None,
    scatter: Annotated[
        float,
        Option(
            min=0,
            max=0.9,
            metavar="SHARE",
            help="Of the memory stirred before a trial, that is held while it is mapped: higher is older.",
        ),
    ] = 0.5,
    stir: Annotated[
        bool, Option("--stir/--no-stir", help="Put free frames into another order before each trial.")
    ] = True,
    retries: Annotated[
        int, Option(min=0, max=100, metavar="N", help="Of a visit that others' work disturbs.")
    ] = 3,
    predict: Annotated[
        bool | None,
        Option(
            "--predict/--no-predict",
            help=f"Replay each trial's frames on the machine's model; sweeps of over {MOST_PREDICTED} points "
            "only if asked for.",
            show_default=False,
        ),
    ] = None,
    machine: Annotated[
        str | None, Option(metavar="NAME", help="For prediction and counters; without it, this one.")
    ] = None,
    seed: Annotated[int, Option(min=0, max=2**31 - 1, metavar="N", help="Decides every random draw.")] = 1,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="Without it, pagelens-out/measure-KERNEL."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Write the files, print nothing but errors.")
    ] = False,
) -> None:
    """Measure this machine: each trial has a page map of its own, and the result is a distribution.

    Needs no rights. Root adds the frames, pools of large pages, and hardware counters.
    """
    given = {
        "n": n,
        "offset": offset,
        "kernels": kernels,
        "footprint": footprint,
        "stride": stride,
        "table": table,
        "block": block,
        "distance": distance,
        "blas": blas,
        "isa": isa,
        "stores": stores,
        "order": order,
    }
    if kernel == TIERS:
        _refuse_for_tiers(context)
        measure_tiers(array, trials, seed, output, as_json, quiet)
        return
    make = _chosen(kernel, given | {"array": array})
    pages = parse_page_sizes(page_size)
    known = choose_machine(machine).machine
    known.require_linux_pages("predict")
    on = cpus_of(cpus)
    plan = make(Settings(on, repeats, seed, _last_level_bytes(on, known), **given))  # type: ignore[arg-type]
    overlapped, ballast = _room(plan, pages, stir)
    notes: list[str] = []
    with (
        closing(HardwareCounters(_events(known), on)) as counters,
        claim_directory(output or OUTPUT / f"measure-{kernel}") as directory,
    ):
        setup = Setup(
            points=plan.points,
            pages=pages,
            memory_bytes=plan.memory_bytes,
            arrays=plan.arrays,
            cpus=on,
            trials=trials,
            seed=seed,
            retries=retries,
            ballast_bytes=ballast,
            scatter=scatter,
            overlapped=overlapped,
            counted=counters.count,
        )
        done, interrupted = _run(setup, quiet)
        notes += [*plan.remarks(), *_notes(done, counters)]
        wanted = predict if predict is not None else len(plan.points) <= MOST_PREDICTED
        if predict is None and not wanted and done[0].frames.size:
            notes.append(
                f"Not predicted: {len(plan.points)} points, each a replay a trial; --predict asks for it."
            )
        models = _models(plan, notes) if wanted and done[0].frames.size and not interrupted else []
        if None in models and plan.unpredicted:
            notes.append(f"Not predicted: {plan.unpredicted}.")
        unpredicted = False  # since Ctrl-C was pressed
        evaluation = partial(evaluate, plan, done, known, seed=seed, interrupted=interrupted)
        try:
            with progress_bar(quiet or not any(models), "predictions") as progress:
                measured = evaluation(models, progress=progress)
        except (UsageError, Interrupted) as error:  # what was measured is kept
            unpredicted = isinstance(error, Interrupted)
            notes.append(f"Not predicted: {'stopped by Ctrl-C' if unpredicted else error}.")
            measured = evaluation([])
        settings = {name: value for name, value in given.items() if value is not None} | {
            "cpus": list(on),
            "trials": trials,
            "repeats": repeats,
            "scatter": scatter,
            "stir": stir,
            "overlapped": overlapped,
            "seed": seed,
            "counters": list(counters.names),
        }
        text = json.dumps(to_json(measured, notes, settings), indent=1)
        if as_json:
            typer.echo(text)
        elif not quiet:
            typer.echo(render(measured, notes), nl=False)
        write_outputs(measured, text, directory)  # last: a full disk takes nothing from the terminal
    if not as_json and not quiet:
        typer.echo(f"\nTables and figure: {directory}")
    if interrupted:
        raise Interrupted(f"stopped after {len(done)} of {trials * len(pages)} trials, which are kept")
    if unpredicted:
        raise Interrupted(
            "stopped while predicting; all trials are kept, and --no-predict leaves the prediction out"
        )


def _chosen(kernel: str, given: Mapping[str, object]) -> Callable[[Settings], Plan]:
    """What makes the plan; refuses settings that the kernel does not have."""
    if kernel not in KERNELS:
        raise UsageError(f"KERNEL {kernel!r}: did you mean {nearest(kernel, [*KERNELS, TIERS])}?")
    make, settings = KERNELS[kernel]
    wrong = next((name for name, value in given.items() if value is not None and name not in settings), None)
    if wrong is not None:
        own = ", ".join(f"--{name}" for name in sorted(settings))
        raise UsageError(f"--{wrong}: not of {kernel}, which has {own}")
    return make


def _refuse_for_tiers(context: typer.Context) -> None:
    """UsageError for what is about page maps, or another kernel's: a device's pages are its driver's."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in OPTIONS | {"kernel"} and source is not None and source.name != "DEFAULT":
            raise UsageError(
                f"--{name.replace('_', '-')}: not of {TIERS}, which has --array, --trials, --seed, --output, "
                "--json, --quiet"
            )


def _last_level_bytes(cpus: Sequence[int], machine: Machine) -> int:
    """Of all that these processors have, whatever machine is named; of one of its where none is shown."""
    stated = machine.l3.size.value if machine.l3 is not None else machine.l2.size.value
    return max(_probes.last_level_bytes(list(cpus)) or stated, 1 << 20)


def _events(machine: Machine) -> dict[str, list[str]]:
    return machine.counters.stated() if machine.counters is not None else {}


def _room(plan: Plan, pages: Sequence[PageSize], stir: bool) -> tuple[bool, int]:
    """Whether two trials' memory fits at a time, and bytes of the ballast. UsageError where not one does."""
    size = max(page.rounded(plan.memory_bytes) for page in pages)
    room = int((1 - _LEFT_FREE) * _probes.available_bytes()) + min(page.free_bytes for page in pages)
    if size > room:
        raise UsageError(
            f"measure {plan.name}: needs {format_size(size)}; {format_size(room)} can be had; take less"
        )
    overlapped = 2 * size <= room
    left = room - (2 if overlapped else 1) * size
    return overlapped, min(_BALLAST * size, left) if stir else 0


class _Stop(Event):
    """Ends kernels, too, and the mapping of memory, soon after it is set."""

    def set(self) -> None:
        super().set()
        _probes.request_stop(True)


def _run(setup: Setup, quiet: bool) -> tuple[list[Trial], bool]:
    """Whole trials, and whether Ctrl-C ended them.

    They are made by a thread of their own: while a kernel runs in the main one, no signal would be handled.
    """
    stop = _Stop()
    done: list[Trial] = []
    total = setup.trials * len(setup.pages)
    at_a_time = (2 if setup.overlapped else 1) * setup.memory_bytes
    # With no more than that, every other trial would have the same pages of the pool.
    wished = at_a_time + (setup.memory_bytes if setup.ballast_bytes >= setup.memory_bytes else 0)
    with (
        ctrl_c_sets(stop, signal.SIGTERM),  # a job that is cancelled gives its pools back, too
        reserved(setup.pages, at_a_time, wished),
        progress_bar(quiet, "trials") as progress,
        ThreadPoolExecutor(1, thread_name_prefix="pagelens-trials") as thread,
    ):

        def run() -> None:
            for trial in run_trials(setup, stop.is_set):
                done.append(trial)
                progress(len(done), total)

        _probes.request_stop(False)
        thread.submit(run).result()
        stopped = stop.is_set()
    if not done:
        raise Interrupted("stopped before the first trial was complete")
    return done, stopped


def _models(plan: Plan, notes: list[str]) -> Sequence[Model | None]:
    """Of each point; none where the kernel is not modelled, or not at this size: then a note says why."""
    try:
        return plan.models()
    except UsageError as error:
        notes.append(f"Not predicted: {error}.")
        return []


def _notes(trials: Sequence[Trial], counters: HardwareCounters) -> list[str]:
    notes = []
    if not trials[0].frames.size:
        notes.append("Frames are not known: the kernel shows them to root only.")
    elif in_virtual_machine():
        notes.append(
            "This is a virtual machine: the frames are the guest's. What depends on address bits below the "
            "host's page size is right; what depends on higher ones (slices, banks) is unverified."
        )
    if any(visit.load.foreign_cpus is None for trial in trials for visit in trial.visits):
        notes.append("Other programs' load is not known: /proc/stat cannot be read.")
    if counters.missing:
        notes.append(f"Counters: {counters.missing}.")
    return notes
