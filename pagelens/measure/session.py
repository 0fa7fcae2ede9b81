"""Runs a measurement from beginning to end: trials on fresh page maps, figures, and predictions."""

import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

from pagelens import _probes
from pagelens.errors import Interrupted, UsageError
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.interrupts import ctrl_c_sets, result_of
from pagelens.machine import Machine
from pagelens.measure.benchmarks import BENCHMARKS
from pagelens.measure.choices import cpus_of
from pagelens.measure.counters import HardwareCounters
from pagelens.measure.experiment import Experiment, Model, Settings
from pagelens.measure.pages import PageSize, parse_page_sizes, reserved
from pagelens.measure.results import Measured, evaluate
from pagelens.measure.trials import Trial, TrialSettings, run_trials
from pagelens.spelling import nearest
from pagelens.units import format_size

MOST_PREDICTED = 16  # points, unless asked for: each is a replay a trial
_BALLAST = 4  # as large as so many trials: docs/measure.md has what it does
_LEFT_FREE = 0.1  # of the memory that is available

Report = Callable[[float, int], None]
Progress = Callable[[str], AbstractContextManager[Report]]  # of "trials" or "predictions"


@dataclass(frozen=True)
class Request:
    """What to measure, and how."""

    benchmark: str
    given: Mapping[str, Any]  # the benchmark's own settings, by name; None where nothing is said
    machine: Machine  # serves prediction and counters
    trials: int = 20  # page maps, each visited twice
    page_size: str = "4k"  # several with commas between take turns
    repeats: int = 3  # how often a visit repeats the benchmark; the best counts
    cpus: str | None = None  # such as "0-3,8"; None: all
    scatter: float = 0.5  # share of the memory stirred before a trial that is held while it is mapped
    stir: bool = True  # free frames are put into another order before each trial
    retries: int = 3  # how often a visit is repeated that others' work disturbs
    predict: bool | None = None  # None predicts up to MOST_PREDICTED points
    seed: int = 1


@dataclass(frozen=True)
class Measurement:
    """The outcome of a measurement."""

    measured: Measured
    notes: Sequence[str]
    settings: Mapping[str, Any]  # the settings of the measurement
    stopped: str = ""  # says what Ctrl-C ended and what is kept; empty if nothing

    def __repr__(self) -> str:
        return "\n".join([repr(self.measured), *self.notes, *filter(None, [self.stopped])])


def measure_benchmark(request: Request, progress: Progress) -> Measurement:
    """Time a benchmark on page maps of its own, and compare each with the model on the same frames.

    Raises UsageError for settings that the benchmark does not have, and for more memory than there is. Raises
    Interrupted if Ctrl-C came before the first trial was complete.
    """
    if request.benchmark not in BENCHMARKS:
        raise UsageError(f"{request.benchmark!r}: did you mean {nearest(request.benchmark, BENCHMARKS)}?")
    make, own = BENCHMARKS[request.benchmark]
    given = {name: value for name, value in request.given.items() if value is not None}
    if wrong := sorted(set(given) - own):
        known = ", ".join(sorted(own))
        raise UsageError(f"{wrong[0]}: {request.benchmark} has no such setting; it has {known}")
    pages = parse_page_sizes(request.page_size)
    machine, seed = request.machine, request.seed
    machine.require_linux_pages("predict")
    on = cpus_of(request.cpus)
    plan = make(Settings(on, request.repeats, seed, last_level_bytes(on, machine), **given))
    overlapped, ballast = _room(plan, pages, request.stir)
    with closing(HardwareCounters(_events(machine), on)) as counters:
        setup = TrialSettings(
            points=plan.points,
            pages=pages,
            memory_bytes=plan.memory_bytes,
            arrays=plan.arrays,
            cpus=on,
            trials=request.trials,
            seed=seed,
            retries=request.retries,
            ballast_bytes=ballast,
            scatter=request.scatter,
            overlapped=overlapped,
            counted=counters.count,
        )
        done, interrupted = _run(setup, progress)
        notes = [*plan.remarks(), *_notes(done, counters)]
        stopped = ""
        if interrupted:
            stopped = f"stopped after {len(done)} of {request.trials * len(pages)} trials, which are kept"
        models = [] if interrupted else _wanted_models(plan, done, request.predict, notes)
        evaluation = partial(evaluate, plan, done, machine, seed=seed, interrupted=interrupted)
        try:
            with progress("predictions" if any(models) else "") as report:
                measured = evaluation(models, progress=report)
        except (UsageError, Interrupted) as error:  # what was measured is kept
            if isinstance(error, Interrupted):
                stopped = (
                    "stopped while predicting; all trials are kept, "
                    "and --no-predict leaves the prediction out"
                )
            notes.append(f"Not predicted: {'stopped by Ctrl-C' if stopped else error}.")
            measured = evaluation([])
        settings = given | {
            "cpus": list(on),
            "trials": request.trials,
            "repeats": request.repeats,
            "scatter": request.scatter,
            "stir": request.stir,
            "overlapped": overlapped,
            "seed": seed,
            "counters": list(counters.names),
        }
    return Measurement(measured, notes, settings, stopped)


def _wanted_models(
    plan: Experiment, done: Sequence[Trial], predict: bool | None, notes: list[str]
) -> Sequence[Model | None]:
    """Return the models of the points that are predicted. Notes say why others are not."""
    if not done[0].frames.size:
        return []
    wanted = predict if predict is not None else len(plan.points) <= MOST_PREDICTED
    if not wanted:
        if predict is None:
            notes.append(
                f"Not predicted: {len(plan.points)} points, each a replay a trial; --predict asks for it."
            )
        return []
    models = _models(plan, notes)
    if None in models and plan.unpredicted:
        notes.append(f"Not predicted: {plan.unpredicted}.")
    return models


def last_level_bytes(cpus: Sequence[int], machine: Machine) -> int:
    """Return the last-level cache of all these processors together, whatever machine is named.

    If the system shows none, it is one cache of the named machine.
    """
    stated = machine.l3.size.value if machine.l3 is not None else machine.l2.size.value
    return max(_probes.last_level_bytes(list(cpus)) or stated, 1 << 20)


def _events(machine: Machine) -> dict[str, list[str]]:
    return machine.counters.stated() if machine.counters is not None else {}


def _room(plan: Experiment, pages: Sequence[PageSize], stir: bool) -> tuple[bool, int]:
    """Return whether the memory of two trials fits at a time, and the bytes of the ballast.

    Raises UsageError if the memory of one trial does not fit.
    """
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
    """An event that also stops kernels and the mapping of memory, soon after it is set."""

    def set(self) -> None:
        super().set()
        _probes.request_stop(True)


def _run(setup: TrialSettings, progress: Progress) -> tuple[list[Trial], bool]:
    """Return whole trials, and whether Ctrl-C ended them.

    A thread of its own makes them, because no signal would be handled while a kernel runs in the main thread.
    """
    stop = _Stop()
    done: list[Trial] = []
    total = setup.trials * len(setup.pages)
    at_a_time = (2 if setup.overlapped else 1) * setup.memory_bytes
    # With no more pages than these, every other trial would get the same pages of the pool.
    wished = at_a_time + (setup.memory_bytes if setup.ballast_bytes >= setup.memory_bytes else 0)
    with (
        ctrl_c_sets(stop, signal.SIGTERM),  # a job that is cancelled gives its pools back, too
        reserved(setup.pages, at_a_time, wished),
        progress("trials") as report,
        ThreadPoolExecutor(1, thread_name_prefix="pagelens-trials") as thread,
    ):

        def run() -> None:
            for trial in run_trials(setup, stop.is_set):
                done.append(trial)
                report(len(done), total)

        _probes.request_stop(False)
        result_of(thread.submit(run))
        stopped = stop.is_set()
    if not done:
        raise Interrupted("stopped before the first trial was complete")
    return done, stopped


def _models(plan: Experiment, notes: list[str]) -> Sequence[Model | None]:
    """Return the model of each point.

    If the kernel is not modelled, or not at this size, there are none, and a note says why.
    """
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
