"""How much of a program's code the caches of a core hold, by how often its lines are executed."""

from collections import OrderedDict

import numpy as np
import pytest

from pagelens.replay.instruction_fetch import present


def shares_of_lru(rate: np.ndarray, capacity: int, executions: int) -> float:
    """The obvious one: lines drawn independently, by their rates, through an LRU cache."""
    generator = np.random.default_rng(1)
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for line in generator.choice(len(rate), executions, p=rate / rate.sum()):
        hits += line in held
        held[line] = None
        held.move_to_end(line)
        if len(held) > capacity:
            held.popitem(last=False)
    return hits / executions


@pytest.mark.parametrize("capacity", [32, 200])
def test_shares_are_those_of_an_lru_cache(capacity: int) -> None:
    rate = 1.0 / np.arange(1, 401)
    expected = shares_of_lru(rate, capacity, 20_000)
    found = present(rate, np.ones(400), capacity)
    assert (rate * found).sum() / rate.sum() == pytest.approx(expected, abs=0.02)


def test_code_that_fits_is_there() -> None:
    assert present(np.array([1e-9, 1.0]), np.array([3.0, 5.0]), 8).tolist() == [1.0, 1.0]


def test_lines_of_more_instructions_take_more_room() -> None:
    rate = np.ones(100)
    assert present(rate, np.full(100, 4.0), 40)[0] < present(rate, np.full(100, 2.0), 40)[0]
