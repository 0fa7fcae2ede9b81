"""From counts to seconds: a stated model, the same for all machines.

T = max over resources, per phase. In cache mode every access probes the fast memory; a miss adds a read of
DDR and a fill of the fast memory; a dirty victim adds a read of the fast memory and a write to DDR. The other
bound is the serial sum: each access is served by one memory after the other (a hit by the fast memory, a miss
and a write-back by DDR), nothing overlaps. Counts are of 64 B lines of the whole node; columns are named as
in `Ensemble.placements`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from pagelens.machine.quantities import LINE_BYTES
from pagelens.machine.schema import Machine

Floats = NDArray[np.float64]


class Columns(Protocol):
    """A polars DataFrame, or a mapping from column names to arrays of equal length."""

    def __getitem__(self, name: str, /) -> Any: ...


@dataclass(frozen=True)
class Times:
    """Seconds, one entry a row of the columns given."""

    time_s: Floats  # the largest of `resources`
    serial_time_s: Floats
    resources: Mapping[str, Floats]  # "issue", "latency", "fast memory", "DDR": each one's own time


def cache_mode_times(
    machine: Machine, counts: Columns, cores_used: int, frequency_factor: Floats | float = 1.0
) -> Times:
    """Times of a machine whose fast memory caches DDR.

    Columns: instructions, msc_reads, msc_writes, msc_misses, msc_read_misses, ddr_reads, ddr_writes.
    `cores_used` cores (ranks x threads, at most the machine's) issue instructions and wait for lines; their
    frequency is the machine's times `frequency_factor`, one of all rows or one a row
    (`Cores.frequency_factor`).
    """
    assert machine.memory_side_cache is not None
    assert machine.fast_memory is not None
    accesses = _column(counts, "msc_reads") + _column(counts, "msc_writes")
    ddr_reads, ddr_writes = _column(counts, "ddr_reads"), _column(counts, "ddr_writes")
    fills = _column(counts, "msc_misses")
    read_misses = _column(counts, "msc_read_misses")
    waiting = (_column(counts, "msc_reads") - read_misses) * machine.fast_memory.latency.value
    waiting = waiting + read_misses * machine.memory_side_cache.miss_latency.value
    fast_bytes = LINE_BYTES * (accesses + fills + ddr_writes)
    ddr_bytes = LINE_BYTES * (ddr_reads + ddr_writes)
    hits = accesses - fills
    fast, ddr = machine.fast_memory.bandwidth.value, machine.ddr.bandwidth.value
    issue = _issue_time(machine, counts, cores_used) / frequency_factor
    resources = {
        "issue": issue,
        "latency": waiting / (machine.cores.outstanding_lines.value * cores_used),
        "fast memory": fast_bytes / fast,
        "DDR": ddr_bytes / ddr,
    }
    return _times(resources, issue + LINE_BYTES * hits / fast + ddr_bytes / ddr)


def flat_mode_times(
    machine: Machine,
    counts: Columns,
    cores_used: int,
    memory: Literal["fast_memory", "ddr"],
    frequency_factor: Floats | float = 1.0,
) -> Times:
    """Times when all of a job's memory lies in one memory; columns: instructions, msc_reads, msc_writes."""
    chosen = machine.fast_memory if memory == "fast_memory" else machine.ddr
    assert chosen is not None
    reads = _column(counts, "msc_reads")
    traffic = LINE_BYTES * (reads + _column(counts, "msc_writes")) / chosen.bandwidth.value
    issue = _issue_time(machine, counts, cores_used) / frequency_factor
    resources = {
        "issue": issue,
        "latency": reads * chosen.latency.value / (machine.cores.outstanding_lines.value * cores_used),
        "fast memory" if memory == "fast_memory" else "DDR": traffic,
    }
    return _times(resources, issue + traffic)


def flat_memory(machine: Machine, job_bytes: int) -> Literal["fast_memory", "ddr"]:
    """Where a job lies on a flat machine: in the fast memory if all of it fits, else in DDR, never split."""
    assert machine.fast_memory is not None
    return "fast_memory" if job_bytes <= machine.fast_memory.size.value else "ddr"


def _issue_time(machine: Machine, counts: Columns, cores_used: int) -> Floats:
    cores = machine.cores
    rate = cores.frequency.value * cores.instructions_per_cycle.value * cores_used
    return _column(counts, "instructions") / rate


def _column(counts: Columns, name: str) -> Floats:
    return np.asarray(counts[name], dtype=np.float64)


def _times(resources: dict[str, Floats], serial: Floats) -> Times:
    return Times(np.maximum.reduce(list(resources.values())), serial, resources)
