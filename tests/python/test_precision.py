"""`explain --precision` takes as many nodes as its medians need, and says what few nodes do not show."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import synthetic

import pagelens
from pagelens.cli.text.explain import render_terminal
from pagelens.ensemble import ROUNDS
from pagelens.explain import explain
from pagelens.explain.precision import half_width, left_to_chance
from pagelens.units import parse_share

PRECISION = 0.02
NODES = 64
POPULATIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, n: np.exp(random.normal(0, 0.02, n)),
    "a long tail": lambda random, n: 1 + random.exponential(0.015, n),
    "two kinds of nodes": lambda random, n: np.where(random.random(n) < 0.3, 1.03, 1.0),
    "few slow nodes": lambda random, n: np.where(random.random(n) < 0.05, 1.5, random.normal(1, 0.005, n)),
}


@pytest.mark.parametrize("name", POPULATIONS)
def test_medians_of_few_nodes_are_those_of_many(name: str) -> None:
    """95% means 95%, though the nodes are looked at after each round."""
    random = np.random.default_rng(1)
    median = np.median(POPULATIONS[name](random, 1_000_000))
    stopped, right, trials = [], 0, 1000
    for _ in range(trials):
        times = POPULATIONS[name](random, NODES)
        nodes = next((n for n in ROUNDS if half_width(times[:n]) <= PRECISION), NODES)
        stopped.append(nodes)
        right += abs(np.median(times[:nodes]) / median - 1) <= PRECISION
    assert right / trials >= 0.95
    assert np.mean(stopped) < NODES / 2


def test_no_single_node_is_enough() -> None:
    assert left_to_chance(synthetic.ensemble(nodes=1)) == np.inf


def test_of_nodes_that_are_alike_four_are_enough(tmp_path: Path) -> None:
    changed = {"cores.count": 8, "fast_memory.size": "128 MiB", "ddr.size": "1 GiB"}
    machine = pagelens.machine("cori-knl-cache").with_values(changed)

    def nodes(precision: float | None) -> int:
        program = pagelens.workload("stream-triad", size="40MB")
        found = pagelens.simulate(
            program, machine, ["contiguous"], nodes=5, output=tmp_path, progress=False, precision=precision
        )
        return found.nodes

    assert nodes(PRECISION) == ROUNDS[0]
    assert nodes(None) == 5


def test_few_nodes_do_not_show_the_slow_ones() -> None:
    few, many = (render_terminal(explain(synthetic.ensemble(nodes=n))) for n in (8, NODES))
    assert "8 nodes miss a kind of node that is one in twenty with a chance of 66%" in " ".join(few.split())
    assert "one in twenty" not in many


def test_a_precision_is_a_share() -> None:
    assert parse_share("2%") == 0.02
    for text in ("2", "0%", "101%", "x%", ""):
        with pytest.raises(pagelens.UsageError, match="a share is above 0% and at most 100%"):
            parse_share(text)
    with pytest.raises(pagelens.UsageError, match="precision: 2"):
        pagelens.simulate(
            pagelens.workload("stream-triad", size="300MB"), pagelens.machine("skx-8160"), precision=2
        )
