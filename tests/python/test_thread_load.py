"""Threads that wait for each other: a process takes as long as its clock says, not as all threads could."""

from pathlib import Path

import numpy as np
import pytest
from small_machine import small

import pagelens as pl
from pagelens.accesses.trace import open_trace
from pagelens.frames import Node, parse_history, policies
from pagelens.replay import Simulation

ALONE, TOGETHER, THREADS, PAGES = 400_000, 100_000, 4, 32


def traced(path: Path, alone: int, threads: int = THREADS, idle: bool = False) -> Path:
    """One thread executes so much and touches memory alone; then all do the same amount side by side.

    `idle`: the others only start, as helpers of a library do.
    """
    with pl.TraceRecorder(path, "threads", pages_exist=True) as recorder:
        recorder.allocate(0, 0x100000, PAGES * 4096, "rows")
        recorder.access(0, 0x100000 + 64 * np.arange(PAGES * 64), instructions=alone // (PAGES * 64))
        for thread in range(threads):
            recorder.sync(thread)
        for thread in range(threads):
            recorder.execute(thread, 10 if idle and thread else TOGETHER)
            recorder.sync(thread)
    return path


def seconds_of_issue(path: Path) -> float:
    """Return how long the cores are busy with instructions, on a node of four of them."""
    machine = small()
    simulation = Simulation(open_trace(path), machine, ranks=1)
    node = Node(machine, 1, 0, history=parse_history("boot; run"))
    times = simulation.run(simulation.place(policies["aged"], node)).times
    return float(times.resources["issue"].sum())


def test_what_one_thread_does_alone_takes_its_whole_time(tmp_path: Path) -> None:
    """Work of one thread is not divided by the number of threads that wait for it."""
    short = seconds_of_issue(traced(tmp_path / "short.trace", PAGES * 64))
    longer = seconds_of_issue(traced(tmp_path / "longer.trace", ALONE))
    executed = ALONE // (PAGES * 64) * PAGES * 64
    assert longer / short == pytest.approx((executed + TOGETHER) / (PAGES * 64 + TOGETHER), rel=0.02)


def test_a_thread_that_hardly_runs_takes_no_core_from_the_others(tmp_path: Path) -> None:
    """A process whose other threads do nothing is as long as its one busy thread."""
    alone = seconds_of_issue(traced(tmp_path / "alone.trace", ALONE, threads=1))
    beside = seconds_of_issue(traced(tmp_path / "beside.trace", ALONE, idle=True))
    assert beside == pytest.approx(alone, rel=0.02)


def test_threads_that_do_the_same_share_their_work(tmp_path: Path) -> None:
    """What all do side by side takes as long as what each of them does."""
    one = seconds_of_issue(traced(tmp_path / "one.trace", PAGES * 64, threads=1))
    four = seconds_of_issue(traced(tmp_path / "four.trace", PAGES * 64))
    assert four == pytest.approx(one, rel=0.02)
