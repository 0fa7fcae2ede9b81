"""Turns counts into seconds by a stated model, which is the same for all machines.

T = max over resources, per phase. The cores are one of them: their issue, stalls and kernel work add up.
Another one is the paths between caches, whose lines take turns on many cores (pagelens/machine/transfers.py).
In cache mode every access probes the fast memory. A miss adds a read of DDR and a fill of the fast memory. A
dirty victim adds a read of the fast memory and a write to DDR.

Two bounds stand beside T. For the lower one, lines between caches and loads go on at the same time. For the
upper one, the serial sum, nothing overlaps, and each access is served by one memory after the other (a hit by
the fast memory, a miss and a write-back by DDR). Counts are 64 B lines of the whole node. Columns have the
names of `Ensemble.placements`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import LINE_BYTES
from pagelens.machine.cleared_lines import without_cleared
from pagelens.machine.core_times import CoreTimes
from pagelens.machine.core_waits import (
    fault_time,
    issue_time,
    l3_time,
    second_level_time,
    stalls_of_lines,
    walk_time,
    walkers,
)
from pagelens.machine.numa_load import NumaLoad, all_local, memory_times, waiting_time
from pagelens.machine.rank_load import RankLoad
from pagelens.machine.schema import Machine, ServedBy
from pagelens.machine.topology import one_node
from pagelens.machine.transfers import Columns, Transfers, column, transfers

Floats = NDArray[np.float64]

TRANSLATION_COUNTS = ("stlb_hits", "walks", "walker_loads")  # columns of either model


@dataclass(frozen=True)
class Times:
    """Seconds, with one entry for each row of the given columns."""

    time_s: Floats  # the largest of `resources`, where what a core does in turn is one
    serial_time_s: Floats
    at_once_time_s: Floats  # the largest if loads and lines between caches never took turns
    equal_cores_time_s: Floats  # `time_s` at the median node's core frequency
    program_time_s: Floats  # `time_s` if the kernel did nothing for the program's pages
    resources: Mapping[
        str, Floats
    ]  # "issue", "page faults", "latency", "page walks", "caches", "fast memory", "DDR", "links": seconds


def modelled_times(
    machine: Machine,
    counts: Columns,
    cores_used: int,
    served_by: ServedBy | None = None,
    frequency_factor: Floats | float = 1.0,
    core: CoreTimes | None = None,
    numa: NumaLoad | None = None,
    ranks: RankLoad | None = None,
) -> Times:
    """Return the seconds of a job whose lines `served_by` serves: by default the machine's cache, or DDR.

    `cores_used` cores (ranks x threads, at most the machine's) issue instructions and wait for lines and
    translations. Their frequency is the machine's times `frequency_factor`, which is one value for all rows
    or one for each (`Cores.frequency_factor`). `core`, with the same rows, gives the time that a core takes
    for the program's own instructions. Without it they are issued at the full width of the machine, and all
    lines overlap. `numa` says which NUMA nodes the lines go between; without it each node's cores use their
    own memory alone, all of them alike. `ranks` says how unevenly ranks are busy; without it all are alike.

    The columns that are read depend on what serves the lines: see `_times_behind_cache` and
    `_times_of_memory`.
    """
    memory = served_by or machine.served_by(sys.maxsize)

    def at(factor: Floats | float) -> Times:
        if memory == "memory-side cache":
            return _times_behind_cache(machine, counts, cores_used, factor, core, ranks)
        return _times_of_memory(machine, counts, cores_used, memory, factor, core, numa, ranks)

    times = at(frequency_factor)
    if np.all(np.equal(frequency_factor, 1.0)):
        return times
    return replace(times, equal_cores_time_s=at(1.0).time_s)


def _times_behind_cache(
    machine: Machine,
    counts: Columns,
    cores_used: int,
    frequency_factor: Floats | float,
    core: CoreTimes | None,
    ranks: RankLoad | None,
) -> Times:
    """Return the times of a machine whose fast memory caches DDR.

    Columns: instructions, msc_reads, msc_writes, msc_misses, msc_read_misses, ddr_reads, ddr_writes,
    stlb_hits, walks, walker_loads; also l3_hits and core_forwards if the caches were run with their L3. With
    row_s, each line of DDR takes that many seconds more than its bandwidth says
    (pagelens/replay/dram_rows.py).
    """
    assert machine.memory_side_cache is not None
    assert machine.fast_memory is not None
    accesses = column(counts, "msc_reads") + column(counts, "msc_writes")
    ddr_reads, ddr_writes = column(counts, "ddr_reads"), column(counts, "ddr_writes")
    fills = column(counts, "msc_misses")
    read_misses = column(counts, "msc_read_misses")
    waiting = (column(counts, "msc_reads") - read_misses) * machine.fast_memory.latency.value
    waiting = waiting + read_misses * machine.memory_side_cache.miss_latency.value
    walking = walk_time(machine, counts)
    of_memory = waiting + walking + second_level_time(machine, counts)
    waiting = of_memory
    if "l3_hits" in counts:
        waiting = waiting + l3_time(machine, counts)
    fast_bytes = LINE_BYTES * (accesses + fills + ddr_writes)
    hits = accesses - fills
    fast = machine.fast_memory.bandwidth.value
    ddr_s = machine.ddr.seconds(ddr_reads, ddr_writes)
    if "row_s" in counts:
        ddr_s = ddr_s + (ddr_reads + ddr_writes) * column(counts, "row_s")
    issue = issue_time(machine, counts, cores_used, core) / frequency_factor
    stalls, in_buffers = stalls_of_lines(
        machine, counts, cores_used, core, column(counts, "msc_reads"), of_memory
    )
    in_flight = waiting / (machine.cores.outstanding_lines.value * cores_used)
    resources = {
        "issue": issue,
        "latency": np.maximum.reduce([stalls, in_buffers, in_flight]),
        "fast memory": fast_bytes / fast,
        "DDR": ddr_s,
        **walkers(machine, walking, cores_used),
    }
    between = transfers(machine, counts, cores_used, frequency_factor, core)
    return _times(resources, stalls, between, [LINE_BYTES * hits / fast, ddr_s], ranks)


def _times_of_memory(
    machine: Machine,
    counts: Columns,
    cores_used: int,
    served_by: ServedBy,
    frequency_factor: Floats | float,
    core: CoreTimes | None,
    numa: NumaLoad | None = None,
    ranks: RankLoad | None = None,
) -> Times:
    """Return the times if all of a job's memory lies in one memory, behind the machine's caches.

    Columns: instructions, l3_hits, core_forwards, stlb_hits, walks, walker_loads, dram_reads, dram_writes. If
    that memory is described bank by bank, also dram_time_s: the memory then takes the longer of its simulated
    time and of what its bandwidth allows.

    A core waits for lines of L3 or of another core, for lines of memory, for the second-level TLB, and for
    page walks. A load of a walk takes as long as one that hits L2, and lines that walks fetch from beyond L2
    are counted with all others. Page walkers are a resource of their own. So are the paths between caches if
    the machine file states their widths (`transfers`).

    A memory of several NUMA nodes takes as long as the busiest of them, and the links as long as the busiest
    direction of one. The cores of a node share its waiting, so the time of the node that waits longest for
    each of its cores counts for all.
    """
    topology = machine.topology
    if served_by == "fast memory" and (fast := machine.fast_memory) is not None:
        topology = one_node(machine.cores.count.value, fast)
    reads = column(counts, "dram_reads")
    load = numa or all_local(topology, cores_used)
    moved_reads, moved_writes = without_cleared(machine, counts, core)
    asked, moved, written = (np.atleast_1d(of)[:, None, None] for of in (reads, moved_reads, moved_writes))
    memory = machine.fast_memory if served_by == "fast memory" else machine.ddr
    assert memory is not None
    transfer, links = memory_times(topology, moved * load.reads, written * load.writes, load)
    waiting = waiting_time(topology, asked * load.reads, load, cores_used)
    if np.ndim(reads) == 0:  # the counts are of one row, and so are the times
        transfer, waiting = transfer[0], waiting[0]
        links = {name: seconds[0] for name, seconds in links.items()}
    transfer = transfer * memory.longer_for_cores(cores_used, ranks)
    if machine.dram is not None and served_by == "DDR":
        transfer = np.maximum(column(counts, "dram_time_s"), transfer)
    memories: dict[str, Floats] = {served_by: transfer, **links}
    return _beyond_caches(
        machine, counts, cores_used, frequency_factor, waiting, memories, reads, core, ranks, load
    )


def tiered_times(machine: Machine, counts: Columns, cores_used: int, core: CoreTimes | None = None) -> Times:
    """Return the times if a job's memory lies in both memories, each line in one of them.

    The columns are those of `_times_of_memory`, with fast_reads, fast_writes, slow_reads, slow_writes for the
    memories. The memories work at the same time, each at its bandwidth. `core` is that of `modelled_times`.
    What a core takes alone and its miss buffers are then resources, too. Every resource is an affine function
    of these four columns, as long as the reads of both memories add up to the same.
    """
    fast, slow = machine.fast_memory, machine.ddr
    assert fast is not None
    reads = {memory: column(counts, f"{memory}_reads") for memory in ("fast", "slow")}
    waiting = reads["fast"] * fast.latency.value + reads["slow"] * slow.latency.value
    memories = {
        "fast memory": fast.seconds(reads["fast"], column(counts, "fast_writes")),
        "DDR": slow.seconds(reads["slow"], column(counts, "slow_writes")),
    }
    at_full_width = _beyond_caches(machine, counts, cores_used, 1.0, waiting, memories)
    if core is None:
        return at_full_width
    of_memory = waiting + walk_time(machine, counts) + second_level_time(machine, counts)
    issue = issue_time(machine, counts, cores_used, core)
    all_reads = reads["fast"] + reads["slow"]
    stalls, in_buffers = stalls_of_lines(machine, counts, cores_used, core, all_reads, of_memory)
    resources = {**at_full_width.resources, "issue": issue}
    resources |= {"issue and stalls": issue + stalls, "miss buffers": in_buffers}
    between = transfers(machine, counts, cores_used, core=core)
    return _times(resources, stalls, between, [np.add.reduce(list(memories.values()))], None)


def _beyond_caches(
    machine: Machine,
    counts: Columns,
    cores_used: int,
    frequency_factor: Floats | float,
    waiting: Floats,
    memories: Mapping[str, Floats],
    reads: Floats | None = None,
    core: CoreTimes | None = None,
    ranks: RankLoad | None = None,
    load: NumaLoad | None = None,
) -> Times:
    """Return the times of cores that wait while `memories` and links take so many seconds.

    Cores wait for lines of memory, for L3, and for translations. `waiting` is the seconds for lines of memory
    if one line comes at a time. `load` says how long the cores work for NUMA balancing, and how long the line
    that they take most often from each other is under way: no two of them have it at a time.
    """
    issue = issue_time(machine, counts, cores_used, core) / frequency_factor
    walking = walk_time(machine, counts)
    of_memory = waiting + walking + second_level_time(machine, counts)
    waiting = of_memory + l3_time(machine, counts)
    stalls, in_buffers = stalls_of_lines(machine, counts, cores_used, core, reads, of_memory)
    in_flight = waiting / (machine.cores.outstanding_lines.value * cores_used)
    resources = {
        "issue": issue,
        "latency": np.maximum.reduce([stalls, in_buffers, in_flight]),
        **memories,
        **walkers(machine, walking, cores_used),
    }
    between = transfers(machine, counts, cores_used, frequency_factor, core)
    faults = fault_time(machine, counts, cores_used, frequency_factor)
    if load is not None and load.kernel_s is not None:
        faults = load.kernel_s / cores_used + (0.0 if faults is None else faults)
    busiest_line = load.busiest_line_s if load is not None else None
    memory = [np.add.reduce(list(memories.values()))]
    return _times(resources, stalls, between, memory, ranks, faults, busiest_line)


def _times(
    resources: dict[str, Floats],
    stalls: Floats,
    between: Transfers | None,
    memories: Sequence[Floats],
    ranks: RankLoad | None,
    faults: Floats | None = None,
    busiest_line: Floats | None = None,
) -> Times:
    """Return the times. A core issues nothing while it stands still for `stalls` seconds.

    Nor does it while it works for the kernel, which takes `faults` seconds.

    What the cores of each rank do by themselves takes as long as it takes the rank with the most to do. Who
    has most lines has as many more page faults.
    `between` is what lines take between caches. `memories` are the seconds of those that serve one after the
    other in the serial time. That a core stands still is not added to it, because it does so for lines that
    are moved; where this alone takes longer, it is the serial time.
    """
    of_core = resources["issue"] + stalls
    at_once, one_by_one = np.zeros_like(of_core), np.zeros_like(of_core)
    if between is not None:
        resources = {**resources, "caches": between.busy}
        at_once, one_by_one = between.at_once, between.one_by_one
    if ranks is not None:
        of_core = ranks.slowest(resources["issue"], stalls)
        most_instructions, most_lines = ranks.most()
        most = {"issue": most_instructions} | dict.fromkeys(("latency", "page walks", "caches"), most_lines)
        resources = {name: seconds * most.get(name, 1.0) for name, seconds in resources.items()}
        at_once, one_by_one = at_once * most_lines, one_by_one * most_lines
        faults = faults * most_lines if faults is not None else None
    if busiest_line is not None:  # which is under way for all cores together
        resources = {**resources, "latency": np.maximum(resources["latency"], busiest_line)}
    serial = resources["issue"] + one_by_one

    def longest(of_core: Floats, between: Floats) -> Floats:
        others = (seconds for name, seconds in resources.items() if name != "caches")
        return np.asarray(np.maximum.reduce([of_core, *others, between]))

    busy = resources.get("caches", at_once)
    alone = longest(of_core, busy)
    if faults is not None:
        resources = {**resources, "page faults": faults}
        of_core, serial = of_core + faults, serial + faults
    for seconds in memories:
        serial = serial + seconds
    time = longest(of_core, busy)
    return Times(
        time_s=time,
        serial_time_s=np.maximum(time, serial),
        at_once_time_s=longest(of_core, at_once),
        equal_cores_time_s=time,
        program_time_s=alone,
        resources=resources,
    )
