"""One simulation: the same questions to machines of every kind, and the same answers on every way there."""

from pathlib import Path

import numpy as np
import pytest

from pagelens.accesses.declared import declared
from pagelens.ensemble import code_digest as digests
from pagelens.errors import UsageError
from pagelens.frames import Node, policies
from pagelens.machine import TRANSLATION_COUNTS, load_machine
from pagelens.replay import Placement, Simulation
from pagelens.reproduce.context import Scale, StudyContext
from pagelens.reproduce.fleet import run_on

MIB = 1 << 20
# In cache mode, without an L3 and with one; banks of DRAM, cores' frequency and page walks; none of them.
MACHINES = ["cori-knl-cache", "xeon-max-cache", "skx-8160", "cori-knl-flat", "red-storm-xt4"]


def simulation(machine: str, policy: str = "random") -> tuple[Simulation, Placement]:
    taken = load_machine(machine)
    found = Simulation(declared("stream-triad", 48 * MIB, 2), taken, ranks=1, seed=3)
    return found, found.place(policies[policy], Node(taken, 3, 0))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_run_without_mechanisms_takes_what_attribution_says(machine: str) -> None:
    simulated, placement = simulation(machine)
    attributed = simulated.attribute(placement)
    np.testing.assert_array_equal(attributed.run.times.time_s, simulated.run(placement).times.time_s)
    sets = list(attributed.seconds_without)
    for without in (sets[0], sets[1], sets[len(sets) // 2], sets[-1]):
        alone = simulated.run(placement, without)
        np.testing.assert_allclose(alone.times.time_s, attributed.seconds_without[without], rtol=1e-12)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_mechanism_is_removed_somewhere(machine: str) -> None:
    simulated, placement = simulation(machine)
    removed = {name for without in simulated.attribute(placement).seconds_without for name in without}
    assert removed == set(simulated.mechanisms)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_run_has_the_counts_of_translating(machine: str) -> None:
    run = (pair := simulation(machine))[0].run(pair[1])
    assert set(TRANSLATION_COUNTS) <= set(run.counts)


def test_an_unknown_mechanism_is_refused_with_those_that_there_are() -> None:
    simulated, placement = simulation("cori-knl-cache")
    with pytest.raises(UsageError, match=r"without: weather is none of .*; name some of capacity, conflicts"):
        simulated.run(placement, without=("weather",))


def test_capacity_of_caches_is_removed_last() -> None:
    simulated, placement = simulation("skx-8160")
    with pytest.raises(UsageError, match="cache capacity is removed with all other mechanisms only"):
        simulated.run(placement, without=("cache capacity",))


def test_runs_of_a_fleet_pay_for_translating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("cori-knl-cache")
    slow = {"walks": 1e12, "walker_loads": 1e12, "stlb_hits": 0.0}
    workload = declared("stream-triad", 512 * MIB, 68)
    placement = policies["2m"].place(machine, Node(machine, 0, 0))

    def seconds() -> float:
        return run_on(machine, workload, placement, StudyContext(Scale.QUICK, 0, tmp_path)).time_s

    before = seconds()
    monkeypatch.setattr(
        "pagelens.replay.translation.Translations.counts",
        lambda *_: {name: np.full(len(workload.phases), value) for name, value in slow.items()},
    )
    assert seconds() > 2 * before


def test_results_of_other_code_are_not_reread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    digests.code_digest.cache_clear()
    before = digests.code_digest()
    for room in digests.ROOMS:
        (tmp_path / room).mkdir()
    (tmp_path / "replay" / "simulation.py").write_text("an edit of the model")
    monkeypatch.setattr(digests, "files", lambda _: tmp_path)
    digests.code_digest.cache_clear()
    assert digests.code_digest() != before
    digests.code_digest.cache_clear()
