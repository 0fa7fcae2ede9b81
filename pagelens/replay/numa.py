"""The NUMA nodes of a replay: where threads run and pages go, and which lines go from node to node."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import KERNEL, ObjectInfo, Workload
from pagelens.address.units import FRAME_BITS, LINE_BYTES
from pagelens.frames.numa_rule import NumaRule, cores_of_threads, ends_of_nodes
from pagelens.machine import Machine, NumaLoad
from pagelens.replay.shared_lines import SharedLines

Floats = NDArray[np.float64]

LEAST_FAR_SHARE = 0.05  # of the lines that a first touch made remote, for an object to be worth a remedy
LEAST_GAIN = 0.02  # of the time, at most, for an object to be worth a remedy: what a report calls different
WRITTEN_AGAIN = 1.5  # times that a line is written: between once, to initialise it, and twice
# The kernel's work for NUMA balancing, for a fault and for a page that moves (assumed: 0.5 to 3 us, and 3 to
# 260 us). The upper end is that of a kernel that used 165 s more for 633,000 pages, with all their faults, on
# 256 processors (Raghavendra K T, Linux kernel mailing list, 2023, numa01_THREAD_ALLOC).
FAULT_S, MOVE_S = 1e-6, 10e-6
AS_IT_IS = 0xFFFF  # a page that is touched first by whoever does (core/frames/numa_policy.hpp)


class PageUsers(NamedTuple):
    """Who uses each page of a program, and for which object it is touched first: [page]."""

    user: NDArray[np.uint16]
    of_object: NDArray[np.uint16]


def page_users(whole: _core.Program, machine: Machine) -> PageUsers | None:
    """Return the users of a program's pages, given all of its lines; None on a machine of one node."""
    if machine.topology.nodes == 1:
        return None
    return PageUsers(*_core.first_touch(whole, [0] * whole.threads)[:2])


def placing(
    machine: Machine,
    program: _core.Program,
    users: PageUsers | None,
    objects: list[ObjectInfo],
    ranks: int,
    rule: NumaRule,
) -> _core.NumaPlacing | None:
    """Return where the threads of `ranks` copies run and their pages go; None on a machine of one node."""
    topology = machine.topology
    if topology.nodes == 1:
        return None
    assert users is not None  # nodes become more only where there are several
    cores = cores_of_threads(machine, ranks * program.threads, rule)
    of_page = touched_by = np.zeros(0, dtype=np.uint16)
    if rule.mode in ("interleave", "weighted", "touch"):
        chosen = np.ones(len(users.of_object), dtype=bool)
        if rule.objects is not None:
            numbers = [number for number, known in enumerate(objects) if known.name in rule.objects]
            chosen = np.isin(users.of_object, numbers)
        if rule.mode == "touch":
            larger = _of_larger_pages(users.user, program, machine.page_order)
            touched_by = np.where(chosen, larger, AS_IT_IS)
        else:
            of_page = chosen.astype(np.uint16)
    return _core.NumaPlacing(
        cpus=cores.tolist(),
        node_of_cpu=topology.node_of_core.tolist(),
        end_of_node=ends_of_nodes(machine),
        policies=rule.policies(machine),
        of_page=of_page.tolist(),
        touched_by=touched_by.tolist(),
        slow_nodes=sum(1 << node for node in topology.slow_nodes),
    )


def _of_larger_pages(user: NDArray[np.uint16], program: _core.Program, order: int) -> NDArray[np.uint16]:
    """Return the user of the kernel's page that each page of 4 KiB lies in: that of most of its pages."""
    if order == 0:
        return user
    _, larger = np.unique(np.asarray(program.pages) >> order, return_inverse=True)
    pairs, uses = np.unique(np.stack([larger.ravel(), user]), axis=1, return_counts=True)
    most = pairs[:, np.lexsort((uses, pairs[0]))]  # of each larger page, the one with most uses comes last
    last = np.append(np.flatnonzero(np.diff(most[0])), most.shape[1] - 1)
    return np.asarray(most[1, last][larger.ravel()], dtype=np.uint16)


def far_objects(workload: Workload, machine: Machine, ranks: int) -> Mapping[str, float]:
    """Return the share of lines that each object's first touch makes remote, of those of all, most first.

    Objects with less than `LEAST_FAR_SHARE` are left out, and those whose lines cannot cost `LEAST_GAIN` of
    the time. The lines are those that pass the private caches.
    """
    if machine.topology.nodes == 1:
        return {}
    program = workload.compile(machine, FRAME_BITS)
    cores = cores_of_threads(machine, ranks * program.threads, NumaRule())[: program.threads]
    _, _, counted, lines = _core.first_touch(program, machine.topology.node_of_core[cores].tolist())
    far = counted.astype(np.float64)
    far[KERNEL] = 0
    if far.sum() == 0:
        return {}
    shares: dict[str, float] = {}
    for known, of_object in zip(workload.objects, far, strict=True):
        shares[known.name] = shares.get(known.name, 0.0) + float(of_object / far.sum())
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    least = LEAST_GAIN / dearest_line(machine, far.sum() / lines) * lines / far.sum()
    return {name: share for name, share in ordered if share >= max(LEAST_FAR_SHARE, least)}


def dearest_line(machine: Machine, remote: float) -> float:
    """Return how many times as long as the mean line a remote one can take, given the share of remote lines.

    That is by latencies, or by the memory of a node that serves more lines than the others. It is by links
    only if these lines are enough to keep one busy all the time.
    """
    topology = machine.topology
    of_all = topology.memory_bandwidth.sum()
    rates = [topology.bandwidth.min(), *(link.rate for link in topology.links)]
    by_latency = float(topology.latency.max() / topology.latency.min())
    by_memory = float(of_all / topology.memory_bandwidth[: topology.rows].min())
    by_link = float(of_all / min(rates))
    return max(by_latency, by_memory, by_link if remote * by_link > 1 else 0.0)


@dataclass(frozen=True)
class NumaLines:
    """Lines of memory by phase, object, the NUMA node whose cores ask for them, and the one that has them.

    They are scaled up to the whole run. Lines that the kernel clears are the kernel's own object.
    """

    reads: Floats  # [phase, object, from, to]
    writes: Floats
    balancing: Floats  # [phase, 3] hinting faults of NUMA balancing, pages that it moved, and demoted
    shared: SharedLines | None = None  # lines that come from other nodes' caches, besides those of memory

    def scaled(self, factor: float) -> "NumaLines":
        """Return `factor` times the lines. The counts of balancing stay as they are."""
        return replace(self, reads=factor * self.reads, writes=factor * self.writes)

    def load(
        self, machine: Machine, threads: NDArray[np.uint32], rows: NDArray[np.int64] | slice
    ) -> NumaLoad:
        """Return the shares of each row's lines, which are a phase's, for the time model.

        `threads` are the cores of the job's threads.
        """
        topology = machine.topology
        on_node = np.bincount(topology.node_of_core[threads], minlength=topology.rows)
        return NumaLoad(
            _shares(self.reads.sum(axis=1), topology.rows)[rows],
            _shares(self.writes.sum(axis=1), topology.rows)[rows],
            on_node.astype(np.float64),
            taken=self.shared.taken.sum(axis=1)[rows, : topology.rows] if self.shared is not None else None,
            busiest_line_s=self.shared.busiest_s[rows] if self.shared is not None else None,
        )


def balancing_seconds(lines: NumaLines, rule: NumaRule) -> Floats:
    """Return the seconds [phase] of all cores together that NUMA balancing takes.

    In a run that is longer than the traced one, faults and moves are spread over that many times the lines.
    """
    faults, moved, demoted = lines.balancing.T
    return np.asarray((FAULT_S * faults + MOVE_S * (moved + demoted)) / rule.longer)


def shifted_lines(
    whole: NumaLines | None, its_sample: NumaLines | None, sample: NumaLines | None
) -> NumaLines | None:
    """Return the lines of a replay from those of another one, and a sample of both."""
    if whole is None or its_sample is None or sample is None:
        return None
    return replace(
        whole,
        reads=np.maximum(whole.reads + sample.reads - its_sample.reads, 0),
        writes=np.maximum(whole.writes + sample.writes - its_sample.writes, 0),
        balancing=sample.balancing,
    )


def replicated(
    lines: NumaLines | None, objects: list[ObjectInfo], ranks: int, rule: NumaRule
) -> NumaLines | None:
    """Let each node read its own copy of the objects that the rule replicates. Copying is not counted.

    An object is only read once it is initialised if its lines are written fewer than `WRITTEN_AGAIN` times:
    by memory, and by the program, where a trace says so.
    """
    if lines is None or rule.mode != "replicate":
        return lines
    reads, written = lines.reads.copy(), lines.writes.sum(axis=(0, 2, 3))
    near = np.arange(reads.shape[2])
    for known, times in zip(objects, written, strict=True):
        is_chosen = rule.objects is None or known.name in rule.objects
        if known.index == KERNEL or not is_chosen:
            continue
        most = WRITTEN_AGAIN * known.ranks * known.bytes / LINE_BYTES
        if times <= ranks * most and known.stored <= most:
            of_node = reads[:, known.index].sum(axis=2)
            reads[:, known.index] = 0
            reads[:, known.index, near, near] = of_node
    return replace(lines, reads=reads)


def numa_lines(found: _core.NodeCounters, scale: Floats) -> NumaLines | None:
    """Return the lines of a replay, `scale` [phase] times those of its counted stretches.

    None if there is one NUMA node.
    """
    raw = np.asarray(found.numa_lines, dtype=np.float64)
    if raw.size == 0:
        return None
    objects = np.asarray(found.object_reads).shape[1]
    nodes = math.isqrt(raw.shape[1] // (2 * objects))
    table = raw.reshape(len(raw), -1, nodes, nodes, 2) * scale[:, None, None, None, None]
    writes = table[..., 1].copy()
    cleared = np.asarray(found.numa_cleared, dtype=np.float64)
    if cleared.size:
        writes[:, KERNEL] += cleared.reshape(len(raw), nodes, nodes)
    return NumaLines(table[..., 0], writes, np.asarray(found.balancing, dtype=np.float64))


def _shares(lines: Floats, rows: int) -> Floats:
    """Return the shares [phase, from, to] of each phase's lines. Lines of no phase are local."""
    lines = np.maximum(lines[:, :rows], 0)
    total = lines.sum(axis=(1, 2), keepdims=True)
    local = np.eye(rows, lines.shape[2]) / rows
    return np.asarray(
        np.divide(lines, total, out=np.broadcast_to(local, lines.shape).copy(), where=total > 0)
    )
