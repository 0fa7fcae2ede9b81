"""Bounds what the placement of pages can cost a program, before any placement is simulated.

The lines that leave L1 are known, because L1 is indexed below the page. Placement decides only where they are
served. At best L2 serves all of them. At worst each of them misses every cache, opens a row of DRAM in the
busiest bank of its channel, and pushes out a dirty line, and every access that may need a page walk has one.
Pages of the size with the cheapest faults are mapped at best, and of that with the dearest at worst.
The time of every placement lies between these two, at the frequency of the median node.
"""

from dataclasses import dataclass

import numpy as np

from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_BYTES, LINE_BYTES
from pagelens.machine import (
    FAULT_COUNTS,
    TRANSLATION_COUNTS,
    CoreTimes,
    Machine,
    NumaLoad,
    RankLoad,
    modelled_times,
)
from pagelens.machine.dram import Dram
from pagelens.machine.schema import ServedBy
from pagelens.replay.run import Floats, lines_past_l1, read_faults

TABLE_LEVELS = 4  # entries of page tables that a walk reads at most
MOST_CLEARED = 8  # pages cleared for one that is used: a large page is taken where an eighth of it is used


@dataclass(frozen=True)
class Bounds:
    """The least and the most seconds of each phase [p] that any placement can take."""

    least_s: Floats
    most_s: Floats


def bounds(
    moved: Floats,
    executed: Floats,
    machine: Machine,
    cores_used: int,
    served_by: ServedBy,
    core: CoreTimes | None,
    ranks: RankLoad | None,
) -> Bounds:
    """Return the bounds of a job on a machine, under any policy.

    `moved` are the counts [p, 6] of `_core.moved_by_phase`, and `executed` the
    instructions [p]. `ranks` has the rows [p]. DRAM is assumed to be busy with every line.
    """
    reads, writes = moved[:, 0], moved[:, 1] + moved[:, 2] + MOST_CLEARED * moved[:, 3]
    none = np.zeros_like(executed)
    nowhere = dict.fromkeys(
        ("msc_reads", "msc_writes", "msc_misses", "msc_read_misses", "ddr_reads", "ddr_writes", "dram_reads",
         "dram_writes", "dram_time_s", "l3_hits", "core_forwards", *TRANSLATION_COUNTS),
        none,
    )  # fmt: skip
    at_best = {
        **nowhere,
        **lines_past_l1(moved),
        **read_faults(moved),
        "instructions": executed,
        "l2_accesses": reads,
        "l2_misses": none,
    }
    cheap, dear = _faults(machine, LINE_BYTES / FRAME_BYTES * moved[:, 3])
    at_best |= cheap
    walks = {"stlb_hits": reads, "walks": reads, "walker_loads": TABLE_LEVELS * reads}
    lines = reads + writes
    pushed_out = reads + writes if served_by == "memory-side cache" else none
    at_worst = {
        **at_best,
        **dear,
        **(walks if machine.page_walk is not None else {}),
        "l2_misses": reads,
        "l2_write_backs": moved[:, 1],
        "msc_reads": reads,
        "msc_writes": writes,
        "msc_misses": lines,
        "msc_read_misses": reads,
        "ddr_reads": lines,
        "ddr_writes": pushed_out,
        "dram_reads": reads,
        "dram_writes": writes,
    }
    if machine.dram is not None:
        of_line = _worst_line(machine.dram)
        at_worst["row_s"] = np.full_like(none, of_line)
        at_worst["dram_time_s"] = lines * of_line
    least = modelled_times(machine, at_best, cores_used, served_by, 1.0, core, ranks=ranks)
    most = np.max(
        [
            modelled_times(machine, at_worst, cores_used, served_by, 1.0, core, load, ranks).time_s
            for load in _worst_loads(machine, len(executed))
        ],
        axis=0,
    )
    return Bounds(least.time_s, np.maximum(most, least.time_s))


def _faults(machine: Machine, pages: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the cheapest faults that map so many pages of 4 KiB, and the dearest."""
    price, of_large = machine.page_fault, HUGE_PAGE_BYTES // FRAME_BYTES
    if price is None:
        return {}, {}
    ways = [(pages, np.zeros_like(pages)), *((0 * pages, n * pages / of_large) for n in (1, MOST_CLEARED))]
    ways.sort(key=lambda way: float(price.seconds(*way).sum()))
    return dict(zip(FAULT_COUNTS, ways[0], strict=True)), dict(zip(FAULT_COUNTS, ways[-1], strict=True))


def _worst_loads(machine: Machine, phases: int) -> list[NumaLoad | None]:
    """Return the loads of which one is the worst: all lines on one NUMA node, asked for by any one of them.

    A load that asks for all lines of one node by the cores of all nodes is no worse than these.
    """
    topology = machine.topology
    if topology.nodes == 1:
        return [None]
    loads: list[NumaLoad | None] = []
    for source, target in np.ndindex(topology.rows, topology.nodes):
        shares = np.zeros((phases, topology.rows, topology.nodes))
        shares[:, source, target] = 1
        loads.append(NumaLoad(shares, shares, np.asarray(topology.cores[: topology.rows], dtype=np.float64)))
    return loads


def _worst_line(dram: Dram) -> float:
    """Return the seconds per line if each opens a row of one bank, and waits for the last write.

    Channels share the lines evenly, because maps interleave them within pages.
    """
    clock = dram.clock_ps
    refresh, between, row, *write = (
        getattr(dram, name).value.picoseconds(clock)
        for name in ("tRFC", "tREFI", "tRC", "tRCD", "CWL", "tWR", "tRP")
    )
    written = sum(write) + dram.burst_length.value // 2 * clock
    return float(1e-12 * max(row, written) / (1 - refresh / between) / dram.channels)
