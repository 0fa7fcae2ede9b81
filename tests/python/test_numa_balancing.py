"""NUMA balancing in a simulation: pages that one thread initialised move to the threads that use them."""

from dataclasses import replace

import numpy as np
import pytest
from small_machine import initialised_by_one_thread, two_nodes

import pagelens as pl
from pagelens.accesses.declared import Array, DeclaredWorkload, Loops, Sweep
from pagelens.accesses.declared.loops import read
from pagelens.cli.text.explain import render_terminal
from pagelens.frames import Node, find_policy, parse_history
from pagelens.machine import Machine
from pagelens.replay import Run, Simulation
from pagelens.replay.numa import FAULT_S, MOVE_S

MIB, FRAME = 1 << 20, 4096
BYTES, PASSES = 8 * MIB, 12
LONGER = 100_000  # so that one pass takes tens of seconds


@pytest.fixture(scope="module")
def machine() -> Machine:
    return two_nodes()


@pytest.fixture(scope="module")
def reader(machine: Machine) -> DeclaredWorkload:
    loops = Loops(
        (Array("serial", BYTES),),
        (*initialised_by_one_thread(), *[Sweep("loop", 1.0, read("serial"))] * PASSES),
        {},
    )
    return DeclaredWorkload("reader", loops, machine.cores.count.value)


@pytest.fixture(scope="module")
def runs(machine: Machine, reader: DeclaredWorkload) -> dict[str, Run]:
    """Runs by policy; `long` is balanced, and takes tens of seconds for a pass."""
    simulation = Simulation(reader, machine, 1)
    node = Node(machine, seed=1, node=0, history=parse_history("boot; run"))
    policies = {name: find_policy(name) for name in ("aged", "touch", "balanced")}
    of_long = replace(policies["balanced"].numa, longer=LONGER)
    policies["long"] = replace(policies["balanced"], numa=of_long)
    moving = replace(policies["touch"].numa, threads="unbound", longer=LONGER)
    policies["unbound"] = replace(policies["touch"], numa=moving)
    return {name: simulation.run(simulation.place(policy, node)) for name, policy in policies.items()}


def test_a_run_that_ends_before_the_first_scan_is_as_without(runs: dict[str, Run]) -> None:
    assert runs["aged"].times.time_s.sum() < 1  # second, after which the kernel begins
    for name, counts in runs["aged"].counts.items():
        np.testing.assert_array_equal(counts, runs["balanced"].counts[name])
    np.testing.assert_array_equal(runs["aged"].times.time_s, runs["balanced"].times.time_s)


def test_each_page_moves_once_to_the_thread_that_uses_it(runs: dict[str, Run]) -> None:
    found, loop = runs["long"], 1
    assert found.counts["pages_moved"][loop] == BYTES / FRAME / 2  # the other half is near
    assert found.counts["hint_faults"][loop] > BYTES / FRAME
    assert found.numa is not None
    lines = found.numa.reads[loop].sum(axis=0)
    remote = (lines.sum() - np.trace(lines)) / lines.sum()
    assert remote < 1.5 / PASSES / 2  # of one pass and a little
    before, after = (runs[name].times.time_s[loop] for name in ("aged", "touch"))
    assert after < found.times.time_s[loop] < after + (before - after) * 1.5 / PASSES


def test_threads_that_move_leave_their_pages_behind(runs: dict[str, Run], machine: Machine) -> None:
    """Each thread moves often, so half of what was near to all of them is remote."""
    own, moving = (runs[name].numa for name in ("touch", "unbound"))
    assert own is not None
    assert moving is not None
    lines = [numa.reads[1].sum(axis=0) for numa in (own, moving)]
    assert np.trace(lines[0]) == pytest.approx(lines[0].sum(), rel=1e-3)
    assert np.trace(lines[1]) / lines[1].sum() == pytest.approx(0.5, abs=0.1)
    assert lines[1].sum() == pytest.approx(lines[0].sum(), rel=0.05)


def test_the_kernel_takes_time_of_the_cores(runs: dict[str, Run], machine: Machine) -> None:
    found, loop = runs["long"], 1
    faults, moves = (found.counts[name][loop] for name in ("hint_faults", "pages_moved"))
    seconds = (FAULT_S * faults + MOVE_S * moves) / LONGER / machine.cores.count.value
    none = np.zeros(2)
    more = found.times.resources["page faults"] - runs["aged"].times.resources.get("page faults", none)
    assert more[loop] == pytest.approx(seconds)
    assert more[0] == 0


def test_the_report_counts_faults_and_pages(machine: Machine, reader: DeclaredWorkload) -> None:
    ensemble = pl.simulate(
        reader, machine, ["aged", "balanced-long"], nodes=1, history="boot; run", progress=False
    )
    explained = pl.explain(ensemble)
    assert explained.numa is not None
    aged, balanced = explained.numa
    assert aged.pages_moved is None
    assert balanced.pages_moved is not None
    said = " ".join(render_terminal(explained, False).split())
    assert f"Under 'balanced-long', Linux moves {balanced.pages_moved:,.0f} pages" in said
