"""Values that a machine file only assumes: explain tries others, and says which would turn its conclusion."""

import numpy as np
import pytest

import pagelens as pl
from pagelens.accesses.declared import declared
from pagelens.explain.assumptions import _around
from pagelens.frames import Node, policies
from pagelens.machine import Machine, load_machine
from pagelens.replay import Simulation
from pagelens.replay.assumed import FACTORS, assumed_values
from pagelens.replay.run import Run

MEBIBYTE = 1 << 20


def with_assumed(name: str, value: str) -> Machine:
    """Westmere, whose memory's bandwidth nobody has measured, and no value of the time model else."""
    machine = load_machine("westmere-ep").with_values({name: value})  # which calls it assumed
    return machine.model_copy(
        update={
            section: table.model_copy(
                update={
                    key: of.model_copy(update={"assumed": None, "source": "a test"})
                    for key in type(table).model_fields
                    if hasattr(of := getattr(table, key), "assumed") and f"{section}.{key}" != name
                }
            )
            for section, table in machine.sections.items()
            if not isinstance(table, list)
        }
    )


@pytest.mark.parametrize("name", ["ddr.bandwidth", "ddr.latency"])
def test_a_run_says_what_it_would_take_by_another_value(name: str) -> None:
    workload = declared("stream-triad", 24 * MEBIBYTE, 1)
    machine = with_assumed(name, {"ddr.bandwidth": "20 GB/s", "ddr.latency": "90 ns"}[name])
    assert list(assumed_values(machine)) == [name]
    section, key = name.split(".")

    def run(of: Machine) -> Run:
        simulation = Simulation(workload, of, ranks=1, vary_assumed=True)
        return simulation.run(simulation.place(policies["contiguous"], Node(of, seed=1, node=0)))

    varied = run(machine).if_assumed
    assert sorted(varied) == [(name, factor) for factor in FACTORS]
    for factor in (FACTORS[0], FACTORS[-1]):
        table = getattr(machine, section)
        of = getattr(table, key)
        changed = table.model_copy(update={key: of.model_copy(update={"value": factor * of.value})})
        other = run(machine.model_copy(update={section: changed}))
        np.testing.assert_allclose(varied[name, factor], other.times.time_s, rtol=1e-12)


def test_a_conclusion_names_the_assumed_value_that_turns_it() -> None:
    """The slower the memory, the less page walks count: 2 MiB pages help only while it is fast."""
    machine = with_assumed("ddr.bandwidth", "40 GB/s").model_copy(update={"dram": None})
    found = pl.explain(
        pl.simulate(
            pl.workload("random-access", size="32MiB"),
            machine,
            ranks=1,
            policies=["aged", "2m"],
            nodes=1,
            seed=1,
        )
    )
    (of,) = found.assumptions
    assert (of.name, of.value) == ("ddr.bandwidth", "40 GB/s")
    assert (of.tried_from, of.holds_from, of.tried_to) == ("13 GB/s", "13 GB/s", "120 GB/s")
    assert 40 < float(of.holds_to.removesuffix(" GB/s")) < 120
    assert (of.below, of.above) == ("", "'2m' gains more than 2%")
    assert (
        f"ddr.bandwidth = 40 GB/s is assumed: this holds from 13 GB/s to {of.holds_to}, and above that "
        "'2m' gains more than 2%." in found.conclusion.sentences
    )


@pytest.mark.parametrize(
    ("gains", "ends"),
    [
        ([1.1, 1.1, 1.1], (1 / 3, 3)),
        ([1.0, 1.1, 1.1], (None, 3)),
        ([1.1, 1.1, 1.0], (1 / 3, None)),
    ],
)
def test_the_range_in_which_a_conclusion_holds_ends_where_the_gain_is_two_percent(
    gains: list[float], ends: tuple[float | None, float | None]
) -> None:
    factors, of = np.array([1 / 3, 1.0, 3.0]), np.array(gains)
    crossing = 3 ** (1 - (1.02 - 1.0) / (1.1 - 1.0))  # by the logarithm of the factor
    expected = [1 / crossing if ends[0] is None else ends[0], crossing if ends[1] is None else ends[1]]
    assert _around(factors, of, of > 1.02) == pytest.approx(expected)
