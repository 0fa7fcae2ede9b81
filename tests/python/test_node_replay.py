"""The replay through all of a node, from Python: shapes, units, and what a placement changes."""

import numpy as np
import pytest
from machine_roles import INCLUSIVE_L3, NO_L3

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import Machine, load_machine
from pagelens.replay.stretches import estimates
from pagelens.replay.whole_node import NodePrograms, Parts, node_model, replay_node

CACHES = _core.cache_counter_names()
DRAM = _core.dram_sum_names()
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def red_storm() -> Machine:
    return load_machine(NO_L3)


def model(machine: Machine, tlb: _core.Tlb | None = None) -> _core.NodeModel:
    """Its L2s and its DRAM, which the twin without row conflicts stands beside."""
    assert machine.dram is not None
    lru = _core.CacheGeometry(machine.l2.sets, machine.l2.ways.value, _core.Replacement.lru, False)
    caches = _core.CacheHierarchy(
        cores=machine.cores.count.value,
        l1=None,
        l2=(lru, machine.l2.shared_by.value),
        l2_inclusion=_core.Inclusion.non_inclusive,
        l3=None,
        snoop_filter=None,
        slices=None,
        seed=0,
        writes_at_once=False,
    )
    outstanding = machine.cores.outstanding_lines.value
    drams = [machine.dram.core(outstanding=outstanding, ideal=ideal) for ideal in (False, True)]
    return _core.NodeModel(cores=machine.cores.count.value, caches=caches, tlb=tlb, drams=drams)


def run(
    machine: Machine,
    policy: str,
    node: int,
    excerpts: list[tuple[int, int, int, int, int]] | None = None,
    cancel: _core.CancelFlag | None = None,
) -> _core.NodeCounters:
    """A triad of three arrays of 16 MiB and 9 lines, on one core."""
    program = declared("stream-triad", 48 * MEBIBYTE, 1).compile(machine, 12)
    state = Node(machine, 1, node, history=parse_history("boot; run"), job_bytes=48 * MEBIBYTE)
    return _core.replay_node(
        program,
        policies[policy].place(machine, state),
        model(machine),
        ranks=1,
        excerpts=excerpts or [],
        cancel=cancel or _core.CancelFlag(),
    )


def sums(counters: _core.NodeCounters, dram: int) -> dict[str, int]:
    return dict(zip(DRAM, counters.drams.sum(axis=0)[dram].tolist(), strict=True))


def test_counts_agree_between_the_parts(red_storm: Machine) -> None:
    counters = run(red_storm, "random", 0)
    caches = dict(zip(CACHES, counters.caches.sum(axis=0).tolist(), strict=True))
    real, ideal = sums(counters, 0), sums(counters, 1)
    assert counters.stretches.tolist() == [
        [p, 0, *of[:2]] for p, of in enumerate(counters.lines) if of[:2].any()
    ]
    assert real["reads"] == ideal["reads"] == caches["dram_reads"] == counters.object_reads.sum()
    assert real["writes"] == ideal["writes"] == caches["dram_writes"]
    assert real["writes"] == counters.object_writes.sum() + counters.lines[:, 1].sum()  # cleared ones apart
    assert real["row_hits"] + real["row_misses"] + real["row_conflicts"] == real["reads"] + real["writes"]
    assert real["row_conflicts"] > 0 == ideal["row_conflicts"]
    assert real["time_ps"] > ideal["time_ps"]


def test_rows_of_one_bank_cost_time_where_the_placement_aligns_them(red_storm: Machine) -> None:
    """How far the arrays lie apart decides on contiguous frames, and on random ones the draw."""
    contiguous, scattered = sums(run(red_storm, "contiguous", 0), 0), sums(run(red_storm, "random", 0), 0)
    assert contiguous["reads"] == pytest.approx(scattered["reads"], rel=0.01)
    assert contiguous["row_conflicts"] != pytest.approx(scattered["row_conflicts"], rel=0.05)
    assert sums(run(red_storm, "random", 1), 0)["row_conflicts"] != scattered["row_conflicts"]
    assert sums(run(red_storm, "random", 0), 0) == scattered


def test_an_excerpt_counts_like_the_whole(red_storm: Machine) -> None:
    whole = run(red_storm, "random", 0)
    part = run(red_storm, "random", 0, excerpts=[(400_000, 100_000, 30_000, 7_000, 0)] * whole.lines.shape[0])
    assert part.lines.tolist() == whole.lines.tolist()
    share = part.stretches[:, 2].sum() / part.lines[:, 0].sum()
    assert 0.1 < share < 0.3
    busiest = int(np.argmax(whole.lines[:, 0]))  # the loop, not the arrays' first writes
    (every, none), (some, left_out) = estimates(whole), estimates(part)
    assert len(none.phase) == 0 < len(left_out.phase)
    for name in ("reads", "writes", "row_conflicts", "dram_time_s"):
        counted = some.rows[0][name][busiest]
        assert counted == pytest.approx(every.rows[0][name][busiest], rel=0.05), name
        others = left_out.rows[0][name][left_out.phase == busiest]
        assert others == pytest.approx(counted, rel=0.05), name


def test_what_does_not_fit_is_refused_and_a_replay_can_be_stopped(red_storm: Machine) -> None:
    with pytest.raises(ValueError, match="excerpts: one for each phase"):
        run(red_storm, "random", 0, excerpts=[(1, 1, 0, 0, 0)] * 99)
    stopped = _core.CancelFlag()
    stopped.set()
    with pytest.raises(_core.Cancelled):
        run(red_storm, "random", 0, cancel=stopped)


def test_lines_by_phase_are_those_of_a_replay(red_storm: Machine) -> None:
    program = declared("stream-triad", 48 * MEBIBYTE, 1).compile(red_storm, 12)
    lines = run(red_storm, "random", 0).lines
    assert _core.lines_by_phase(program, 1) == lines[:, 0].tolist()
    assert _core.most_lines_by_phase(program) == lines[:, :2].sum(axis=1).tolist()


def test_stretches_count_like_the_whole_where_caches_hold_much_of_them() -> None:
    """What the caches held before a stretch, and hold after it, must not decide what memory is asked for."""
    xt4 = load_machine(NO_L3)
    machine = load_machine(INCLUSIVE_L3).model_copy(update={"dram": xt4.dram, "ddr": xt4.ddr})
    cores = machine.cores.count.value
    workload = declared("cg", 128 * MEBIBYTE, cores)
    whole = Parts(workload.lines_in_order(machine), [])
    parts = NodePrograms(workload, machine, 1).parts()
    assert parts.in_stretches
    node = Node(machine, 1, 0, history=parse_history("boot; run"))
    every, some = (
        replay_node(
            of,
            policies["random"].place(machine, node),
            node_model(machine, rows=(True,), writes_at_once=of.writes_at_once),
            ranks=1,
        )
        for of in (whole, parts)
    )
    assert some.simulated < 0.6 < every.simulated == 1
    a, b = every.whole.with_row(0), some.whole.with_row(0)
    for counter in ("l2_misses", "dram_reads", "dram_writes", "row_conflicts", "dram_time_s"):
        # Of the three iterations: each has four stretches, so chance alone makes more of one.
        assert b[counter][2:].sum() == pytest.approx(a[counter][2:].sum(), rel=0.1), counter
