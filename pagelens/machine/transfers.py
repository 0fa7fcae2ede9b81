"""The time that lines take between the caches of a core, and how it combines with the core's loads.

Rules and widths are those of the Execution-Cache-Memory model (Stengel et al., ICS 2015, arXiv:1410.5010;
Hofmann et al., Supercomputing Frontiers and Innovations 7(2), 2020, arXiv:1907.00048). An L1 of Intel's gives
data to loads or takes a line from the L2, and a line comes from the L3 or goes to the L1: all of these take
turns, and arithmetic goes on beside them. On AMD's Zen all of them work at the same time. What memory takes
is not part of the rule here, because lines in flight decide that (pagelens/machine/time.py).
docs/decisions/ecm.md says how well this does.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import LINE_BYTES
from pagelens.machine.core_times import CoreTimes
from pagelens.machine.parts import Parts
from pagelens.values.quantities import Sourced

Floats = NDArray[np.float64]


class Columns(Protocol):
    """A polars DataFrame, or a mapping from column names to arrays of equal length."""

    def __getitem__(self, name: str, /) -> Any: ...

    def __contains__(self, name: str, /) -> bool: ...


def column(counts: Columns, name: str) -> Floats:
    """Return one column as float64."""
    return np.asarray(counts[name], dtype=np.float64)


@dataclass(frozen=True)
class Transfers:
    """Seconds of each row that the paths between the caches of the cores in use are busy."""

    busy: Floats  # by the rule of these cores, with the loads that take turns with lines
    at_once: Floats  # if loads and all paths worked at the same time
    one_by_one: Floats  # if no two paths worked at the same time


def transfers(
    machine: Parts,
    counts: Columns,
    cores_used: int,
    frequency_factor: Floats | float = 1.0,
    core: CoreTimes | None = None,
) -> Transfers | None:
    """Return the time of what the caches of `cores_used` cores move, or None if no width is stated.

    The clock is `frequency_factor` times that of the machine file. Columns: instructions; the lines that L1s
    fetch, which are l1_fetches, l2_references or l2_accesses; l1_write_backs, l2_misses and l2_write_backs
    (or l1d_writebacks and l2_writebacks). A path whose lines are not counted takes no time. `core` says how
    long an instruction's loads take. Without it they take none.
    """
    clock = machine.cores.frequency.value * np.asarray(frequency_factor) * cores_used
    lines = [found for found in (_lines_of_l2(machine, counts), _lines_of_l3(machine, counts)) if found]
    if not lines:
        return None
    # The cores that are in use are the first ones, so fewer than share a cache have it for themselves.
    paths = [moved * LINE_BYTES * min(sharing, cores_used) / width / clock for moved, width, sharing in lines]
    at_once, one_by_one = np.maximum.reduce(paths), np.add.reduce(paths)
    if machine.cores.transfers is None or machine.cores.transfers.value == "at once":
        return Transfers(at_once, at_once, one_by_one)
    loads = column(counts, "instructions") * (core.load_cycles if core is not None else 0.0) / clock
    return Transfers(loads + one_by_one, at_once, one_by_one)


def _lines_of_l2(machine: Parts, counts: Columns) -> tuple[Floats, float, int] | None:
    """Return the lines that take turns between L1s and L2s, bytes a cycle, and how many cores share these."""
    l2, fetched = machine.l2, _counted(counts, "l1_fetches", "l2_references", "l2_accesses")
    if l2.width is None or fetched is None:
        return None
    if l2.inclusion is not None and l2.inclusion.value == "exclusive":
        # What such an L2 does not have comes to L1 past it.
        missed = _counted(counts, "l2_misses")
        return (
            None if missed is None else (np.maximum(fetched - missed, 0), l2.width.value, l2.shared_by.value)
        )
    written = _counted(counts, "l1_write_backs", "l1d_writebacks")
    if written is not None and l2.write_width is not None:
        written = written * (l2.width.value / l2.write_width.value)  # as many lines as take its time
    return _moved(fetched, written, l2.both_ways), l2.width.value, l2.shared_by.value


def _lines_of_l3(machine: Parts, counts: Columns) -> tuple[Floats, float, int] | None:
    """Return the lines that take turns between L2s and L3s, bytes a cycle of a core, and 1."""
    l3, fetched = machine.l3, _counted(counts, "l2_misses")
    if l3 is None or l3.width is None or fetched is None:
        return None
    # An L3 that holds what leaves an L2 takes all of it, which is as much as comes to it.
    takes_all = l3.inclusion.value in ("victim", "exclusive")
    left = fetched if takes_all else _counted(counts, "l2_write_backs", "l2_writebacks")
    return _moved(fetched, left, l3.both_ways), l3.width.value, 1


def _moved(down: Floats, up: Floats | None, both_ways: Sourced[bool] | None) -> Floats:
    """Return the lines that take turns, of those that come `down` to the core and go `up` from it."""
    if up is None:
        return down
    return np.maximum(down, up) if both_ways is not None and both_ways.value else down + up


def _counted(counts: Columns, *names: str) -> Floats | None:
    """Return the first of the columns that is there."""
    return next((column(counts, name) for name in names if name in counts), None)
