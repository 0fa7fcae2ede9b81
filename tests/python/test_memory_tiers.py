"""Tiers of memory: which pages end in slow memory, and whether promotion brings them back.

The model is compared with a real kernel, in a guest whose second node has no processors.
"""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CXL_NODE, TWO_SOCKETS, TWO_TIERS
from zonesort_guest import shell

import pagelens as pl
from pagelens.accesses.declared import Array, DeclaredWorkload, Loops, Sweep
from pagelens.accesses.declared.loops import read, write
from pagelens.cli.text.explain import render_terminal
from pagelens.explain import moved_pages_note
from pagelens.explain.remedies import default_policies
from pagelens.frames import Node, find_policy, parse_history
from pagelens.lab.emulator import NumaSpeed
from pagelens.lab.guest import Guest
from pagelens.machine import Machine, load_machine, parse_machine
from pagelens.replay import Run, Simulation

MIB, FRAME = 1 << 20, 4096
# Caches that 4 MiB do not fit into, a node of 32 MiB with all cores, and one of 256 MiB without any.
TIERS = f"""\
schema = 1
base = "{TWO_TIERS}"
name = "tiers"
title = "Tiers"
mode = "single"
[l2]
size = {{ value = "64 KiB", assumed = "small" }}
[l3]
size = {{ value = "1440 KiB", assumed = "small" }}
[snoop_filter]
sets = {{ value = 128, assumed = "small" }}
[numa]
sizes = {{ value = ["32 MiB", "256 MiB"], assumed = "small" }}
[ddr]
size = {{ value = "288 MiB", assumed = "small" }}
"""
COLD, HOT, PASSES = 32 * MIB, 8 * MIB, 30
# Memory that is written once and left alone, and memory that is written after it and read often.
LOOPS = Loops(
    (Array("left alone", COLD), Array("used", HOT)),
    (
        Sweep("fill", 1.0, write("left alone"), first_touch=True),
        Sweep("begin", 1.0, write("used"), first_touch=True),
        *[Sweep("loop", 1.0, read("used"))] * PASSES,
    ),
    {},
)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return parse_machine(TIERS.encode(), "tiers.toml")


@pytest.fixture(scope="module")
def workload(machine: Machine) -> DeclaredWorkload:
    return DeclaredWorkload("tiers", LOOPS, machine.cores.count.value)


@pytest.fixture(scope="module")
def runs(machine: Machine, workload: DeclaredWorkload) -> dict[str, Run]:
    simulation = Simulation(workload, machine, 1)
    node = Node(machine, seed=1, node=0, history=parse_history("boot; run"))
    policies = {name: find_policy(name) for name in ("aged", "tiered")}
    for name, longer in (("often", 1000), ("seldom", 20_000)):  # a pass takes 0.3 s, or 5 s
        numa = replace(policies["tiered"].numa, longer=longer)
        policies[name] = replace(policies["tiered"], numa=numa)
    return {name: simulation.run(simulation.place(policy, node)) for name, policy in policies.items()}


def in_slow(run: Run, number: int, phase: int) -> float:
    """The share of an object's lines in slow memory."""
    assert run.numa is not None
    lines = run.numa.reads[phase, number].sum(axis=0)
    return float(lines[1] / lines.sum())


def test_what_is_written_last_ends_in_slow_memory(runs: dict[str, Run]) -> None:
    assert in_slow(runs["aged"], 2, 2) == 1
    assert runs["aged"].times.time_s.sum() < 1  # second, after which the kernel begins
    for name, counts in runs["aged"].counts.items():
        np.testing.assert_array_equal(counts, runs["tiered"].counts[name])


def test_what_is_used_often_comes_back_and_the_oldest_pages_make_room(runs: dict[str, Run]) -> None:
    often, loop, pages = runs["often"], 2, HOT / FRAME
    assert in_slow(often, 2, loop) < 2 / PASSES
    moved, demoted = (often.counts[name][loop] for name in ("pages_moved", "pages_demoted"))
    assert 0.95 * pages < moved <= pages  # some found room when they were written
    assert moved <= demoted < moved + 200  # up to the watermark
    assert often.times.time_s[loop] < runs["aged"].times.time_s[loop] / 4


def test_what_is_used_seldom_is_not_hot(runs: dict[str, Run]) -> None:
    """A page that is used every five seconds is seldom used in the second after a scan."""
    seldom, loop = runs["seldom"], 2
    assert seldom.counts["pages_moved"][loop] < seldom.counts["hint_faults"][loop] / 10
    assert in_slow(seldom, 2, loop) > 0.2


def test_the_report_says_what_lies_in_slow_memory_and_what_comes_back(
    machine: Machine, workload: DeclaredWorkload
) -> None:
    ensemble = pl.simulate(
        workload, machine, ["aged", "tiered-long"], nodes=1, history="boot; run", progress=False
    )
    explained = pl.explain(ensemble)
    assert explained.numa is not None
    aged, tiered = explained.numa
    assert aged.slow_share is not None
    assert aged.pages_demoted is None
    said = " ".join(render_terminal(explained, False).split())
    assert (
        f"has {aged.slow_share:.0%} of the lines under 'aged' (counted); of single objects: used 100%" in said
    )
    assert "Under 'tiered-long', no scan of Linux finds a page of slow memory in use" in said
    moved = tiered.model_copy(update={"hint_faults": 12.0, "pages_moved": 10.0, "pages_demoted": 3.0})
    assert moved_pages_note(moved).startswith("Under 'tiered-long', Linux moves 10 pages from slow memory")
    assert "after 12 hinting faults in the whole run, and moves 3 pages to slow" in moved_pages_note(moved)


def test_tiers_are_compared_where_there_are_some(workload: DeclaredWorkload, machine: Machine) -> None:
    assert "tiered-long" in default_policies(workload, machine)
    two_sockets = load_machine(TWO_SOCKETS)
    small = DeclaredWorkload("small", LOOPS, two_sockets.cores.count.value)
    assert "tiered-long" not in default_policies(small, two_sockets)


def test_memory_without_cores_is_slow_by_its_latency_over_its_bandwidth() -> None:
    assert load_machine(CXL_NODE).topology.slow_nodes == (4,)
    assert load_machine(TWO_SOCKETS).topology.slow_nodes == ()
    rates = 'bandwidths = { value = ["246 1000 GB/s"], assumed = "as HBM" }\nsizes ='
    both = '[ddr]\nbandwidth = { value = "1246 GB/s", assumed = "both" }'
    faster = TIERS.replace("sizes =", rates).replace("[ddr]", both)
    assert parse_machine(faster.encode(), "faster.toml").topology.slow_nodes == ()


@pytest.mark.long
def test_a_kernel_promotes_and_demotes_as_the_model_says(tmp_path: Path) -> None:
    """What is written last finds the fast node full. It is read, and what was left alone makes room."""
    source, program = Path(__file__).parents[1] / "programs" / "tiered_pages.c", tmp_path / "tiered"
    subprocess.run(["gcc", "-O1", "-static", "-o", program, source], check=True)
    speeds = [NumaSpeed(100e9, 100e-9), NumaSpeed(20e9, 300e-9)]
    hot = 4000
    with Guest(
        "6.12", 768 * MIB, {"/lab/p": program}, fast=256 * MIB, speeds=speeds,
        append="numa_balancing=disable transparent_hugepage=never",
    ) as guest:  # fmt: skip
        tiers = "cat /sys/devices/virtual/memory_tiering/memory_tier*/nodelist"
        assert shell(guest, tiers).split() == ["0", "1"]
        settings = "/sys/kernel/debug/sched/numa_balancing"
        shell(guest, "mount -t debugfs none /sys/kernel/debug || true")
        for name, value in (
            ("scan_delay_ms", 3000),
            ("scan_period_min_ms", 100),
            ("scan_period_max_ms", 200),
        ):
            shell(guest, f"echo {value} > {settings}/{name}")  # the delay: all is written before the first
        shell(guest, "echo 0 > /proc/sys/vm/watermark_boost_factor")  # which would wake kswapd meanwhile
        shell(guest, "echo true > /sys/kernel/mm/numa/demotion_enabled")
        shell(guest, "echo 2 > /proc/sys/kernel/numa_balancing")
        free = int(shell(guest, "grep MemFree /sys/devices/system/node/node0/meminfo").split()[3])
        cold = free // 4 + 2000  # pages: more than the fast node has
        *found, candidates, promoted, demoted = tiered(guest, f"{cold} {hot} 8")
    print(f"6.12: pages by node {found}; {candidates} candidates, {promoted} promoted, {demoted} demoted")
    assert found[2:4] == [0, hot]  # demotion has not made room for what was written last
    assert found[6:] == [hot, 0]
    assert promoted == pytest.approx(hot, abs=100)  # with few other pages
    assert promoted <= candidates
    assert 0.6 * hot < demoted < 1.4 * hot  # up to the watermarks, and what others have given back
    assert 0.3 * hot < found[5] - found[1] < 1.4 * hot  # of them the program's own


def tiered(guest: Guest, arguments: str) -> list[int]:
    """Return what the program prints, and the candidates, promoted and demoted pages meanwhile."""
    counters = r"grep -E '^(pgpromote_candidate|pgpromote_success|pgdemote_kswapd) ' /proc/vmstat"

    def counted() -> dict[str, int]:
        return {name: int(value) for name, value in map(str.split, shell(guest, counters).splitlines())}

    before = counted()
    on_nodes = list(map(int, shell(guest, f"/lab/p {arguments}").split()))
    after = counted()
    names = ("pgpromote_candidate", "pgpromote_success", "pgdemote_kswapd")
    return on_nodes + [after[name] - before[name] for name in names]
