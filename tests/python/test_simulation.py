"""One simulation: the same questions to machines of every kind, and the same answers on every way there."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CACHE_BEHIND_L3, CACHE_MODE, FLAT_MODE, NO_L3, SNOOP_FILTER

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.address.units import FRAME_BITS
from pagelens.ensemble import code_digest as digests
from pagelens.errors import UsageError
from pagelens.frames import Node, policies
from pagelens.machine import TRANSLATION_COUNTS, load_machine
from pagelens.replay import Placement, Simulation, asked_first, nearly_equal
from pagelens.replay.run import Attributed

MIB = 1 << 20
TRACE = Path(__file__).parents[1] / "data/results/cg.bin"
# In cache mode, without an L3 and with one; banks of DRAM, cores' frequency and page walks; none of them.
MACHINES = [
    *(CACHE_MODE, NO_L3),
    *(pytest.param(each, marks=pytest.mark.long) for each in (CACHE_BEHIND_L3, SNOOP_FILTER, FLAT_MODE)),
]


def simulation(machine: str, policy: str = "random") -> tuple[Simulation, Placement]:
    taken = load_machine(machine)
    found = Simulation(declared("stream-triad", 12 * MIB, 2), taken, ranks=1, seed=3)
    return found, found.place(policies[policy], Node(taken, 3, 0))


@cache
def attributed(machine: str) -> Attributed:
    """It takes a replay for each set of the mechanisms: two tests look at the same."""
    simulated, placement = simulation(machine)
    with pytest.MonkeyPatch.context() as patch:  # test_nearly_equal.py is about those that share a replay
        patch.setattr(nearly_equal, "is_fair", lambda *_: False)
        return simulated.attribute(placement)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_run_without_mechanisms_takes_what_attribution_says(machine: str) -> None:
    simulated, placement = simulation(machine)
    found = attributed(machine)
    np.testing.assert_array_equal(found.run.times.time_s, simulated.run(placement).times.time_s)
    sets = list(found.seconds_without)
    for without in (sets[0], sets[1], sets[len(sets) // 2], sets[-1]):
        alone = simulated.run(placement, without)
        np.testing.assert_allclose(alone.times.time_s, found.seconds_without[without], rtol=1e-12)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_mechanism_is_removed_somewhere(machine: str) -> None:
    removed = {name for without in attributed(machine).seconds_without for name in without}
    assert removed == set(simulation(machine)[0].mechanisms)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_run_has_the_counts_of_translating(machine: str) -> None:
    run = (pair := simulation(machine))[0].run(pair[1])
    assert set(TRANSLATION_COUNTS) <= set(run.counts)


def test_an_unknown_mechanism_is_refused_with_those_that_there_are() -> None:
    simulated, placement = simulation(CACHE_MODE)
    with pytest.raises(UsageError, match=r"without: weather is none of .*; name some of capacity, conflicts"):
        simulated.run(placement, without=("weather",))


def test_capacity_of_caches_is_removed_last() -> None:
    simulated, placement = simulation(SNOOP_FILTER)
    with pytest.raises(UsageError, match="cache capacity is removed with all other mechanisms only"):
        simulated.run(placement, without=("cache capacity",))


def test_only_what_differs_between_nodes_is_simulated_if_asked() -> None:
    machine, workload = load_machine(CACHE_MODE), declared("stream-triad", 512 * MIB, 68)
    whole = Simulation(workload, machine, 1, seed=3)
    part = Simulation(workload, machine, 1, seed=3, only_differences=True)
    placement = whole.place(policies["random"], Node(machine, 3, 0))
    of_whole, of_part = whole.run(placement).counts, part.run(placement).counts
    for name in ("msc_misses", "ddr_writes", "instructions"):
        np.testing.assert_array_equal(of_whole[name], of_part[name])
    assert of_whole["walks"].sum() > 0 == of_part["walks"].sum()
    assert part.mechanisms == ()


def test_pages_too_large_for_a_program_change_nothing() -> None:
    machine = load_machine(CACHE_MODE)
    simulated = Simulation(declared("cg", 5 * MIB, 1), machine, ranks=1, seed=3)
    small = simulated.place(policies["random"], Node(machine, 3, 0))
    of_small, of_large = (simulated.run(each).counts for each in (small, replace(small, page_bits=30)))
    for name, counts in of_small.items():
        np.testing.assert_array_equal(of_large[name], counts, name)


def test_only_machines_in_cache_mode_are_simulated_in_part() -> None:
    with pytest.raises(ValueError, match=f"{SNOOP_FILTER}: past_caches and only_differences"):
        Simulation(declared("stream-triad", 64 * MIB, 2), load_machine(SNOOP_FILTER), 1, past_caches=True)


def test_results_of_other_code_are_not_reread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    digests.code_digest.cache_clear()
    before = digests.code_digest()
    for room in digests.ROOMS:
        assert any((digests.PACKAGE / room).glob("*.py")), "the digest is of no code"
        (tmp_path / room).mkdir()
    (tmp_path / "replay" / "simulation.py").write_text("an edit of the model")
    monkeypatch.setattr(digests, "PACKAGE", tmp_path)
    digests.code_digest.cache_clear()
    assert digests.code_digest() != before
    digests.code_digest.cache_clear()


@pytest.mark.parametrize("name", [CACHE_MODE, SNOOP_FILTER])
def test_opening_a_trace_for_a_machine_walks_it_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The survey's walk makes the program that a simulation asks for first, and it is the same program."""
    machine = load_machine(name)
    asked = asked_first(machine)
    opened = open_trace(TRACE, first=asked)
    apart = open_trace(TRACE)

    def program(of: TraceWorkload) -> tuple[object, ...]:
        made = of.lines_in_order(machine) if asked.in_order else of.compile(machine, FRAME_BITS)
        return made.ops, made.lines, _core.most_lines_by_phase(made)

    expected = program(apart)
    with monkeypatch.context() as patched:
        patched.setattr(TraceWorkload, "_compile", None)  # a second walk
        assert program(opened) == expected
    assert opened.digest == apart.digest
    assert program(opened) == expected  # those in order are made anew
