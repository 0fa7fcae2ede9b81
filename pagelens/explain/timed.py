"""Compares the time that a program takes on this machine with the time modelled for it alone there."""

from collections.abc import Sequence
from statistics import median

from pagelens.accesses.workload import Workload
from pagelens.explain.model import TimedRecord
from pagelens.explain.verdict import COVERED
from pagelens.frames import Node, parse_history, policies
from pagelens.host.program_times import time_program
from pagelens.machine import Machine
from pagelens.replay import Simulation
from pagelens.units import format_time

# The report warns if modelled and measured times differ by more than this factor.
FAR = 1.5
RUNS = 3
_MEASURABLE = ("cores.frequency", "ddr.latency")  # by `machines detect --measure`; both change most times


def time_beside(words: Sequence[str], workload: Workload, machine: Machine, seed: int) -> TimedRecord:
    """Run the program `words` RUNS times, and model one copy of its workload on an idle, fresh node.

    A program of one thread is compared by its processor time, which other work on the machine disturbs least,
    and one of several by the time that passes. `machine` is to be the one that this runs on. Raises Failure
    where the program does not run.
    """
    runs = time_program(words, RUNS)
    alone = workload.threads == 1
    of_runs = [run.processor_s if alone else run.elapsed_s for run in runs]
    simulation = Simulation(workload, machine, 1, seed=seed)
    node = Node(machine, seed, 0, history=parse_history("boot; run"))
    times = simulation.run(simulation.place(policies["aged"], node)).times
    return TimedRecord(
        measured_s=of_runs,
        of_kernel_s=[run.of_kernel_s for run in runs],
        clock="processor time" if alone else "elapsed time",
        modelled_s=float(times.time_s.sum()),
        by_pipeline=machine.pipeline is not None and workload.samples is not None,
    )


def far_off(timed: TimedRecord | None, share_seen: float | None, assumed: Sequence[str] = ()) -> list[str]:
    """Return a warning if the model is wrong about this program; empty if it is right, or nobody can tell.

    `assumed` names the values that the machine file assumes.
    """
    if timed is None or not _whole(share_seen) or _factor(timed) <= FAR:
        return []
    direction = "more" if timed.modelled_s > median(timed.measured_s) else "less"
    return [
        f"The model is wrong about this program: it says {_factor(timed):.1f}x {direction} time than one "
        f"copy takes on this machine ({_in_words(timed)}). Take what follows as a hint.",
        *_why(timed, assumed),
    ]


def beside(timed: TimedRecord | None, share_seen: float | None) -> list[str]:
    """Return both times, if they are close enough."""
    if timed is None or (_whole(share_seen) and _factor(timed) > FAR):
        return []
    if not _whole(share_seen):
        return [
            f"One copy takes {format_time(median(timed.measured_s))} on this machine. This cannot be "
            "compared with the model, since only a part of the run was traced (--accesses 0 traces all)."
        ]
    return [f"The model agrees with this machine within {_factor(timed):.2f}x: {_in_words(timed)}."]


def _whole(share_seen: float | None) -> bool:
    return share_seen is not None and share_seen >= COVERED


def _factor(timed: TimedRecord) -> float:
    ratio = timed.modelled_s / median(timed.measured_s)
    return max(ratio, 1 / ratio)


def _in_words(timed: TimedRecord) -> str:
    low, high = min(timed.measured_s), max(timed.measured_s)
    return (
        f"{format_time(median(timed.measured_s))} of {timed.clock} measured in {len(timed.measured_s)} runs "
        f"({format_time(low)} to {format_time(high)}), {format_time(timed.modelled_s)} modelled"
    )


def _why(timed: TimedRecord, assumed: Sequence[str]) -> list[str]:
    """Return the known reasons why the model is wrong."""
    reasons = []
    if names := [name for name in _MEASURABLE if name in assumed]:
        reasons.append(
            f"The machine file assumes {' and '.join(names)}; `pagelens machines detect --measure` measures "
            "such values."
        )
    if not timed.by_pipeline:
        reasons.append(
            "It takes all instructions as issued at full width, since the machine file has no [pipeline] or "
            "the trace no samples of instructions."
        )
    share = median(timed.of_kernel_s) / median(timed.measured_s)
    if share > 0.2 and timed.modelled_s < median(timed.measured_s):
        reasons.append(f"The kernel takes {100 * share:.0f}% of the measured time, and it is not traced.")
    return reasons
