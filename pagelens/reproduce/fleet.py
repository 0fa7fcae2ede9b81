"""Runs declared workloads on many nodes with a memory-side cache, for the studies of fleets.

Only what differs between nodes is simulated. The lines of a declared workload are those past the private
caches (docs/declared.md), so these caches are left out. Page walks and DRAM rows cost the same on every node,
so they are not simulated. `cori-minife --quick` with both gave the same figures in all digits, in seven times
the time. `xeon-max --quick` did so, too: random frames open no more rows than the triad from which the
bandwidth of DDR is known (docs/decisions/rows-behind.md).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.declared import DeclaredWorkload
from pagelens.accesses.workload import KERNEL
from pagelens.address.units import HUGE_PAGE_BITS, LINE_BYTES
from pagelens.frames import Node, policies
from pagelens.machine import Machine
from pagelens.replay import Placement
from pagelens.reproduce.context import StudyContext

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PhaseRun:
    """A phase of a workload on one placement. It counts the lines of the whole node."""

    lines: float  # lines past the private caches
    misses: float  # misses of these in the memory-side cache
    two_way_misses: float  # misses in a cache of two ways
    written_back: float  # victims that were dirty
    cleared: float  # lines of pages that the kernel handed out
    time_s: float
    issue_s: float  # the part of it that issues instructions
    conflict_share: float  # the share of the job's pages that conflict at its peak

    @property
    def bandwidth(self) -> float:
        """Bytes a second. For STREAM with non-temporal stores this is what STREAM reports."""
        return LINE_BYTES * self.lines / self.time_s

    @property
    def hit_share(self) -> float:
        """The share of lines that hit."""
        return 1 - self.misses / self.lines


def run_policies(
    names: Iterable[str], machine: Machine, workload: DeclaredWorkload, state: Node, context: StudyContext
) -> dict[str, PhaseRun]:
    """Return the measured phase under each policy. All policies start from the same state of a node."""
    return {
        name: run_on(machine, workload, policies[name].place(machine, state), context, state.node)
        for name in names
    }


def run_on(
    machine: Machine,
    workload: DeclaredWorkload,
    placement: _core.Placement,
    context: StudyContext,
    node: int = 0,
) -> PhaseRun:
    """Return the measured phase of a run on all cores.

    The GIL is released meanwhile. Raises _core.Cancelled.
    """
    return run_phases(machine, workload, placement, context, node)[workload.measured_phase]


def run_phases(
    machine: Machine,
    workload: DeclaredWorkload,
    placement: _core.Placement,
    context: StudyContext,
    node: int = 0,
) -> Mapping[str, PhaseRun]:
    """Return every phase of a run on all cores, by name. Raises _core.Cancelled."""
    simulation = context.simulation(workload, machine)
    found = simulation.run(Placement(placement, machine, HUGE_PAGE_BITS, node=node), cancel=context.cancel)
    counts, times = found.counts, found.times
    return {
        phase: PhaseRun(
            lines=float(counts["msc_reads"][at] + counts["msc_writes"][at]),
            misses=float(counts["msc_misses"][at]),
            two_way_misses=float(counts["two_way_misses"][at]),
            written_back=float(counts["ddr_writes"][at]),
            cleared=float(found.object_accesses[at, KERNEL]),
            time_s=float(times.time_s[at]),
            issue_s=float(times.resources["issue"][at]),
            conflict_share=float(counts["conflict_share"][at]),
        )
        for at, phase in enumerate(workload.phases)
    }


def columns(runs: list[PhaseRun]) -> Mapping[str, Floats]:
    """Return the values of many runs as columns, by name."""
    names = ("lines", "misses", "two_way_misses", "time_s", "conflict_share", "bandwidth", "hit_share")
    return {name: np.array([getattr(run, name) for run in runs]) for name in names}
