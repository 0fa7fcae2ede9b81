"""Compares the time that a program takes on this machine with the time modelled for it alone there.

The kernel works for a program, too: it starts it, answers its system calls and its page faults. The model has
page faults alone. So the processor time of a program of one thread is compared without the kernel's part,
which is measured, and the modelled time without page faults (docs/decisions/kernel-time.md).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import mean, median

from pagelens.accesses.traced_program import FEW
from pagelens.accesses.workload import Workload
from pagelens.errors import Failure
from pagelens.explain.model import TimedRecord
from pagelens.explain.verdict import COVERED
from pagelens.frames import Node, parse_history, policies
from pagelens.host.load import LoadMeter
from pagelens.host.program_times import time_program
from pagelens.machine import Machine
from pagelens.replay import Simulation
from pagelens.units import format_time

# The report warns if modelled and measured times differ by more than this factor.
FAR = 1.5
RUNS = 3
# The kernel notes at its ticks, which are 1 to 10 ms apart, whether the program or itself is at work. So a
# short program runs more often, and of a very short one the kernel's part is not known.
_ENOUGH_S, _MOST_RUNS, _SHORT_S = 0.3, 30, 0.01
_MUCH = 0.1  # a share of the kernel's, or of other programs', that the report names
_MEASURABLE = ("cores.frequency", "ddr.latency")  # by `machines detect --measure`; both change most times


def time_beside(
    words: Sequence[str], workload: Workload, machine: Machine, seed: int, share: float = 1.0
) -> TimedRecord:
    """Run the program `words` RUNS times or more, and model one copy of its workload on an idle, fresh node.

    A program of one thread is compared by its processor time, which other work on the machine disturbs least,
    and one of several by the time that passes. `machine` is to be the one that this runs on. Raises Failure
    where the program does not run, or has more threads at work than the machine has cores, or where the
    workload has too small a `share` of the accesses of all programs that `words` run.
    """
    if share < 1 - FEW:
        raise Failure(
            f"--timed: nothing is timed, because {Path(words[0]).name} runs other programs besides "
            f"{workload.name}, which made {share:.0%} of all accesses and is the one that is explained"
        )
    if workload.threads > (cores := machine.cores.count.value):
        raise Failure(
            f"--timed: {workload.name} is not timed, because its {workload.threads} working threads share "
            f"the {cores} cores of this computer, and the model gives each of them a core"
        )
    meter = LoadMeter()
    runs = time_program(words, RUNS)
    wanted = RUNS * _ENOUGH_S / max(sum(run.processor_s for run in runs), 1e-6)
    if (more := min(_MOST_RUNS, ceil(wanted)) - RUNS) > 0:
        runs += time_program(words, more)
    load = meter.stop()
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
        modelled_program_s=float(times.program_time_s.sum()),
        others_share=None if load.foreign_cpus is None else load.others / (os.cpu_count() or 1),
        by_pipeline=machine.pipeline is not None and workload.samples is not None,
    )


@dataclass(frozen=True)
class _Compared:
    """What is measured and modelled of the same work, in seconds."""

    measured: Sequence[float]  # of each run
    modelled: float
    clock: str

    @property
    def factor(self) -> float:
        ratio = self.modelled / median(self.measured)
        return max(ratio, 1 / ratio)

    def __str__(self) -> str:
        low, high = min(self.measured), max(self.measured)
        return (
            f"{format_time(median(self.measured))} of {self.clock} measured in {len(self.measured)} runs "
            f"({format_time(low)} to {format_time(high)}), {format_time(self.modelled)} modelled"
        )


def far_off(timed: TimedRecord | None, share_seen: float | None, assumed: Sequence[str] = ()) -> list[str]:
    """Return a warning if the model is wrong about this program; empty if it is right, or nobody can tell.

    `assumed` names the values that the machine file assumes. `beside` has the reasons that no user can mend.
    """
    if timed is None or not _comparable(timed, share_seen) or _disturbed(timed):
        return []
    compared = _compared(timed)
    if compared.factor <= FAR:
        return []
    direction = "long" if compared.modelled > median(compared.measured) else "short"
    return [
        f"The model is wrong about this program: its time for one copy on this machine is too {direction} by "
        f"a factor of {compared.factor:.1f} ({compared}). Take what follows as a hint.",
        *_of_others(timed),
        *_to_measure(assumed),
    ]


def beside(timed: TimedRecord | None, share_seen: float | None) -> list[str]:
    """Return both times if they are close enough, else why they are not, or why they are not compared."""
    if timed is None:
        return []
    if not _whole(share_seen):
        return [
            f"One copy takes {format_time(median(timed.measured_s))} on this machine. This cannot be "
            "compared with the model, since only a part of the run was traced (--accesses 0 traces all)."
        ]
    if not _comparable(timed, share_seen):
        return [
            f"One copy takes {format_time(median(timed.measured_s))} on this machine (measured). Most of so "
            "short a time is the kernel's, which starts the program, so it is not compared with the model."
        ]
    compared = _compared(timed)
    if _disturbed(timed):
        return [
            f"The model cannot be compared with this machine ({compared}). Other programs used "
            f"{timed.others_share:.0%} of the processor meanwhile, and elapsed time is longer by what they "
            "take from the program's threads. Time it on an idle machine."
        ]
    if compared.factor > FAR:
        return [*_why(timed), *_of_kernel(timed)]
    return [
        f"The model agrees with this machine within {compared.factor:.2f}x: {compared}.",
        *_of_kernel(timed),
    ]


def _whole(share_seen: float | None) -> bool:
    return share_seen is not None and share_seen >= COVERED


def _comparable(timed: TimedRecord, share_seen: float | None) -> bool:
    by_processor = timed.clock == "processor time"
    return _whole(share_seen) and not (by_processor and median(timed.measured_s) < _SHORT_S)


def _disturbed(timed: TimedRecord) -> bool:
    """Say whether other programs may have made the threads of this one wait for a processor."""
    return timed.clock == "elapsed time" and (timed.others_share or 0.0) > _MUCH


def _compared(timed: TimedRecord) -> _Compared:
    """Return the program's own part of both times; of elapsed time all of it, as threads share the kernel."""
    if timed.clock == "elapsed time" or timed.modelled_program_s is None:
        return _Compared(timed.measured_s, timed.modelled_s, timed.clock)
    own = 1 - _kernel_share(timed)
    return _Compared(
        [own * seconds for seconds in timed.measured_s],
        timed.modelled_program_s,
        "the program's own processor time",
    )


def _kernel_share(timed: TimedRecord) -> float:
    """Return the kernel's share of all runs: of a single one its clock says too little."""
    return min(sum(timed.of_kernel_s) / sum(timed.measured_s), 0.99)


def _of_kernel(timed: TimedRecord) -> list[str]:
    """Say what the kernel takes for the program, if that is much."""
    if _kernel_share(timed) <= _MUCH:
        return []
    modelled = "Of this, the model has page faults alone"
    if timed.modelled_program_s == timed.modelled_s:
        modelled = "None of this makes the modelled time longer"  # other parts may take longer meanwhile
    elif timed.modelled_program_s is not None:
        longer = format_time(timed.modelled_s - timed.modelled_program_s)
        modelled += f", which make its time {longer} longer"
    return [
        f"The kernel takes {format_time(mean(timed.of_kernel_s))} of processor time for the program "
        f"(measured): to start it, and for its system calls and page faults. {modelled}. The gains stated "
        "here do not change what is not modelled."
    ]


def _of_others(timed: TimedRecord) -> list[str]:
    """Say what else ran while a program of one thread was timed, which its processor time has in part.

    That makes the program slower, so it explains no modelled time that is too long.
    """
    compared = _compared(timed)
    if (timed.others_share or 0.0) <= _MUCH or compared.modelled > median(compared.measured):
        return []
    return [
        f"Other programs used {timed.others_share:.0%} of the processor meanwhile. They share caches and "
        "memory with the program, so it may be faster on an idle machine."
    ]


def _to_measure(assumed: Sequence[str]) -> list[str]:
    """Say which assumed values can be measured."""
    names = [name for name in _MEASURABLE if name in assumed]
    if not names:
        return []
    return [
        f"The machine file assumes {' and '.join(names)}; `pagelens machines detect --measure` measures such "
        "values."
    ]


def _why(timed: TimedRecord) -> list[str]:
    """Return the known reasons why the model is wrong, but for assumed values."""
    reasons = []
    if not timed.by_pipeline:
        reasons.append(
            "The model takes all instructions as issued at full width, since the machine file has no "
            "[pipeline] or the trace no samples of instructions."
        )
    if timed.clock == "elapsed time":
        reasons.append(
            "Elapsed time also has the calls by which threads wait for and wake each other, which are not "
            "modelled."
        )
    return reasons
