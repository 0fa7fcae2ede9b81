"""What the kernel's work for a page costs a program: measured, counted, and in the model's time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CACHE_MODE, CHIPLETS

import pagelens as pl
from pagelens.accesses.declared import declared
from pagelens.errors import UsageError
from pagelens.explain.cause_words import page_faults_in_words
from pagelens.explain.model import Distribution, ResourceRecord
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import CoreTimes, Machine, parse_machine
from pagelens.machine.cleared_lines import FIRST_FETCHES, without_cleared
from pagelens.measure.page_faults import file_pages_cost, page_cost, zero_page_cost
from pagelens.replay import Run, Simulation

SMALL_S, LARGE_S = 1.5e-6, 100e-6
FILE = """schema = 1
base = "{base}"
name = "priced"
title = "A machine with the price of a page"
"""
PRICE = """[page_fault]
small = { value = "1.5 us", input = "by hand" }
large = { value = "100 us", input = "by hand" }
"""
ARRAYS = 3 * (2 << 20)  # bytes of a triad, of which each page is written once


def machine(price: str = PRICE, base: str = CHIPLETS) -> Machine:
    return parse_machine((FILE.format(base=base) + price).encode(), "here")


@pytest.fixture(scope="module")
def simulations() -> dict[str, Simulation]:
    """Return the same program on a machine with the price, and without."""
    return {
        name: Simulation(declared("stream-triad", ARRAYS, 1), machine(price), 1)
        for name, price in (("priced", PRICE), ("free", ""))
    }


def run(simulation: Simulation, policy: str) -> Run:
    node = Node(simulation.machine, 1, 0, history=parse_history("boot; run"))
    return simulation.run(simulation.place(policies[policy], node))


@pytest.mark.parametrize(
    ("policy", "seconds"), [("aged", ARRAYS / 4096 * SMALL_S), ("2m", ARRAYS / (2 << 20) * LARGE_S)]
)
def test_each_page_is_paid_once(simulations: dict[str, Simulation], policy: str, seconds: float) -> None:
    found = run(simulations["priced"], policy).times.resources["page faults"]
    assert found.sum() == pytest.approx(seconds)


def test_a_core_does_nothing_else_meanwhile(simulations: dict[str, Simulation]) -> None:
    priced, free = (run(simulations[name], "aged").times for name in ("priced", "free"))
    faults = priced.resources["page faults"]
    assert "page faults" not in free.resources
    assert np.all(priced.time_s >= priced.resources["issue"] + faults)
    assert priced.serial_time_s == pytest.approx(free.serial_time_s + faults)
    assert np.array_equal(priced.program_time_s, free.time_s)
    touched = faults > 0
    assert np.all(priced.time_s[touched] > free.time_s[touched])
    assert np.array_equal(priced.time_s[~touched], free.time_s[~touched])


def test_no_mechanism_takes_page_faults_away(simulations: dict[str, Simulation]) -> None:
    simulation = simulations["priced"]
    node = Node(simulation.machine, 1, 0, history=parse_history("boot; run"))
    placement = simulation.place(policies["aged"], node)
    least = simulation.run(placement, without=simulation.mechanisms)
    assert least.times.resources["page faults"].sum() == pytest.approx(ARRAYS / 4096 * SMALL_S)


@pytest.mark.parametrize("policy", ["aged", "2m"])
def test_no_placement_takes_less_or_more_than_the_bounds(
    simulations: dict[str, Simulation], policy: str
) -> None:
    bounds, found = simulations["priced"].bounds(), run(simulations["priced"], policy)
    assert np.all(bounds.least_s <= found.times.time_s)
    assert np.all(found.times.time_s <= bounds.most_s)
    assert bounds.least_s.sum() >= ARRAYS / (2 << 20) * LARGE_S


def test_dear_faults_leave_open_whether_placement_matters() -> None:
    dear = Simulation(
        declared("stream-triad", ARRAYS, 1), machine(PRICE.replace("1.5 us", "1 ms")), 1
    ).bounds()
    assert dear.most_s.sum() >= ARRAYS / 4096 * 1e-3
    assert dear.least_s.sum() == pytest.approx(ARRAYS / (2 << 20) * LARGE_S, rel=0.5)


def test_a_memory_side_cache_has_no_price_of_pages() -> None:
    with pytest.raises(UsageError, match=r"page_fault.*no effect"):
        machine(base=CACHE_MODE)


READ_PRICE = """zero = { value = "0.5 us", input = "by hand" }
file = { value = "2 us", input = "by hand" }
"""


def test_pages_that_are_only_read_are_paid_too(tmp_path: Path) -> None:
    """The pages of a file cost by blocks of 64 KiB, and whoever maps it again pays again."""
    lines = np.arange(64, dtype=np.uint64) * 64
    with pl.TraceRecorder(tmp_path / "reads.trace", "reads") as recorder:
        for page in range(100):
            recorder.access(0, 0x4000_0000 + 4096 * page + lines, instructions=4)
        for _ in range(2):
            recorder.map_file(0, 0x7000_0000, 64 * 4096, "data.bin")
            for page in (0, 1, 15, 17, 40):
                recorder.access(0, 0x7000_0000 + 4096 * page + lines, instructions=4)
            recorder.unmap(0, 0x7000_0000, 64 * 4096)
    workload = pl.trace(tmp_path / "reads.trace")
    found = run(Simulation(workload, machine(PRICE + READ_PRICE), 2), "aged")
    read_s = 100 * 0.5e-6 + 2 * 3 * 2e-6
    assert found.times.resources["page faults"].sum() == pytest.approx(2 * read_s / 2)  # on two cores
    assert run(Simulation(workload, machine(), 2), "aged").times.resources["page faults"].sum() == 0


@pytest.mark.parametrize(
    ("busy_s", "bound_s", "words"),
    [
        (0.012, 0.012, "Page faults take 12% of its time: the kernel maps"),
        (0.012, 0.0, "Page faults take 12% of its time, but something else takes longer meanwhile: the"),
        (0.001, 0.001, ""),
    ],
)
def test_the_answer_says_what_page_faults_cost(busy_s: float, bound_s: float, words: str) -> None:
    faults = ResourceRecord(name="page faults", busy_s=busy_s, bound_s=bound_s)
    said = page_faults_in_words(Distribution.model_construct(times_s=[0.1, 0.1], resources=[faults]))
    assert [words] == [sentence[: len(words)] for sentence in said] if words else not said


def walks(*found: tuple[float, int]) -> Iterator[tuple[float, int]]:
    return iter(found)


def test_the_best_walk_with_pages_of_the_wanted_size_counts() -> None:
    small, large = 16384, 32  # of 64 MiB
    results = walks((2.0 * small, small), (1.5 * small, small + 3), (0.1 * small, large))
    assert page_cost(4096, 3, lambda *_: next(results)) == pytest.approx(1.5)
    results = walks((2.0, small), (1.0, small))  # there are no large pages
    assert page_cost(2 << 20, 2, lambda *_: next(results)) is None


def test_the_kernel_counts_a_fault_a_page() -> None:
    for cost in (page_cost(4096, 1), zero_page_cost(1), file_pages_cost(1)):
        assert cost is not None
        assert 0 < cost < 1e-3


def test_lines_that_were_just_cleared_do_not_come_from_memory() -> None:
    """By hand: 10 small pages of 64 lines. A fifth of the program's lines come in no order."""
    levels = np.zeros((1, 3))
    core = CoreTimes(
        np.ones(1), np.zeros(1), np.zeros(1), levels + 1, levels + 0.1, levels + 0.1, np.ones((1, 3, 4))
    )
    counts = {"instructions": [1e6], "dram_reads": [2000.0], "dram_writes": [400.0], "small_faults": [10.0]}
    counts[FIRST_FETCHES] = [1e3]
    columns = {name: np.array(value) for name, value in counts.items()}
    reads, writes = without_cleared(machine(), columns, core)
    assert reads == pytest.approx([2000 - 0.8 * 640])
    assert writes == pytest.approx([0])
    for priced, of_trace in ((machine(""), core), (machine(), None)):
        assert without_cleared(priced, columns, of_trace)[0] == pytest.approx([2000])
    columns[FIRST_FETCHES][:] = 10  # it touches one line of each page, and then others again and again
    assert without_cleared(machine(), columns, core)[0] == pytest.approx([2000 - 0.8 * 10])
