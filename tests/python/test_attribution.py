"""Shapley attribution: the average over orders, adds up, blind to what does nothing, never clipped."""

from collections.abc import Callable, Mapping
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelens.explain.attribution import Attribution, attribute, shapley
from pagelens.replay.mechanisms import CAPACITY, CONFLICTS, WRITE_BACKS
from pagelens.replay.memory_side_engine import TWIN_COLUMNS, remaining

Columns = Mapping[str, np.ndarray]

PLAYERS = ("a", "b", "c")
MECHANISMS = (CAPACITY, CONFLICTS, WRITE_BACKS)
games = st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=8)


def game(values: list[float]) -> Callable[[frozenset[str]], np.ndarray]:
    def value(present: frozenset[str]) -> np.ndarray:
        return np.array([values[sum(1 << PLAYERS.index(p) for p in present)]])

    return value


@given(games)
def test_shapley_is_the_average_step_over_all_orders(values: list[float]) -> None:
    v, parts = game(values), shapley(PLAYERS, game(values))
    for player in PLAYERS:
        steps = []
        for order in permutations(PLAYERS):
            before = frozenset(order[: order.index(player)])
            steps.append(v(before | {player}) - v(before))
        assert parts[player] == pytest.approx(np.mean(steps), abs=1e-6)
    assert sum(parts.values())[0] == pytest.approx(values[7] - values[0], abs=1e-6)


def with_twins(machine: Columns, ideal: Columns, infinite: Columns) -> Columns:
    """All three caches' counts, under the names of a run."""
    counts = dict(machine)
    for twin, of_twin in (("ideal", ideal), ("first", infinite)):
        counts |= {f"{twin}_{count}": of_twin[column] for column, count in TWIN_COLUMNS.items()}
    return counts


def attribute_memory_side(
    machine: Columns, ideal: Columns, infinite: Columns, time: Callable[[Columns], np.ndarray]
) -> Attribution:
    sets = [frozenset(chosen) for size in range(4) for chosen in combinations(MECHANISMS, size)]
    counted = with_twins(machine, ideal, infinite)
    return attribute({removed: time(remaining(frozenset(MECHANISMS) - removed, counted)) for removed in sets})


@given(games, st.floats(-1e6, 1e6))
def test_what_cannot_go_alone_is_what_is_left_when_all_others_have_gone(
    values: list[float], least: float
) -> None:
    everything, v = frozenset(PLAYERS), game(values)
    sets = [frozenset(chosen) for size in range(4) for chosen in combinations(PLAYERS, size)]
    without = {removed: v(everything - removed) for removed in sets}
    a = attribute({**without, everything | {"last"}: np.array([least])})
    assert a.unburdened[0] == least
    assert a.parts["last"][0] == values[0] - least
    assert "last" not in a.alone
    parts = shapley(PLAYERS, v)
    assert all(a.parts[player] == parts[player] for player in PLAYERS)
    saved = values[7] - values[0] - sum(a.alone.values())
    assert a.interaction[0] == pytest.approx(saved[0], abs=1e-6)


counts = st.integers(0, 10**9)


@st.composite
def counted(draw: st.DrawFn) -> tuple[Columns, Columns, Columns]:
    """A machine and its twins: the twins may be better or worse, none misses less than the infinite one."""
    infinite = draw(counts)
    full, machine = infinite + draw(counts), infinite + draw(counts)
    reads = infinite + draw(counts) + max(full, machine)

    def columns(misses: int, writes: int) -> dict[str, np.ndarray]:
        values = {
            "instructions": 1e9,
            "msc_reads": reads,
            "msc_writes": draw(counts),
            "msc_misses": misses,
            "msc_read_misses": misses,
            "ddr_reads": misses,
            "ddr_writes": writes,
        }
        return {name: np.array([float(value)]) for name, value in values.items()}

    return columns(machine, draw(counts)), columns(full, draw(counts)), columns(infinite, 0)


def max_of_resources(columns: Columns) -> np.ndarray:
    fast = (columns["msc_reads"] + columns["msc_misses"] + columns["ddr_writes"]) / 5.0
    ddr = columns["ddr_reads"] + columns["ddr_writes"]
    return np.maximum(np.maximum(fast, ddr), columns["instructions"] / 3)


@given(counted())
def test_parts_add_up_to_the_loss(triple: tuple[Columns, Columns, Columns]) -> None:
    a = attribute_memory_side(*triple, time=max_of_resources)
    assert sum(a.parts.values())[0] == pytest.approx((a.time - a.unburdened)[0], rel=1e-9, abs=1e-3)
    assert a.time == pytest.approx(max_of_resources(triple[0]))
    total = sum(a.alone.values()) + a.interaction
    assert total[0] == pytest.approx((a.time - a.unburdened)[0], rel=1e-9, abs=1e-3)


@given(counted())
def test_all_mechanisms_present_is_the_machine_itself(triple: tuple[Columns, Columns, Columns]) -> None:
    counters = remaining(frozenset(MECHANISMS), with_twins(*triple))
    for name, value in triple[0].items():
        assert counters[name] == pytest.approx(value), name


def test_a_machine_equal_to_its_twin_has_no_conflicts() -> None:
    base = {
        name: np.array([value])
        for name, value in {
            "instructions": 0.0,
            "msc_reads": 100.0,
            "msc_writes": 0.0,
            "msc_misses": 40.0,
            "msc_read_misses": 40.0,
            "ddr_reads": 40.0,
            "ddr_writes": 10.0,
        }.items()
    }
    infinite = base | {
        name: np.zeros(1) for name in ("msc_misses", "msc_read_misses", "ddr_reads", "ddr_writes")
    }

    def sum_of_ddr(columns: Columns) -> np.ndarray:
        return columns["ddr_reads"] + columns["ddr_writes"]

    a = attribute_memory_side(base, base, infinite, sum_of_ddr)
    assert a.parts["conflicts"][0] == 0
    # 40 reads are capacity's; the 10 writes need both capacity and write-backs, so each carries half.
    assert a.parts["capacity"][0] == 45
    assert a.parts["write-backs"][0] == 5
    assert a.alone["write-backs"][0] == 10
    assert a.interaction[0] == -10  # the ten writes are saved once, not by each


def test_a_twin_that_is_worse_makes_conflicts_negative() -> None:
    """A loop longer than the cache: LRU misses all 100, the direct-mapped machine only 40."""
    machine = {name: np.array([0.0]) for name in ("instructions", "msc_writes", "ddr_writes")}
    machine |= {name: np.array([40.0]) for name in ("msc_misses", "msc_read_misses", "ddr_reads")}
    machine |= {"msc_reads": np.array([100.0])}
    full = machine | {name: np.array([100.0]) for name in ("msc_misses", "msc_read_misses", "ddr_reads")}
    infinite = machine | {name: np.array([0.0]) for name in ("msc_misses", "msc_read_misses", "ddr_reads")}
    a = attribute_memory_side(machine, full, infinite, lambda c: c["ddr_reads"])
    assert a.parts["conflicts"][0] < 0
    assert a.parts["capacity"][0] > 40
    assert a.parts["conflicts"][0] + a.parts["capacity"][0] == pytest.approx(40)
