"""The static test of snoop filters from machine files alone; docs/results/snoop-filter.md has more draws."""

import math

import numpy as np
import pytest
from machine_roles import PUBLISHED_KNL, SLICES_14, SLICES_18, SLICES_22, SLICES_28, SNOOP_FILTER

from pagelens.conflicts import Socket, socket_of
from pagelens.conflicts.predict import excess_shares
from pagelens.conflicts.study import (
    HELD_BYTES,
    contiguous,
    contiguous_windows,
    evictions,
    random_pages,
    random_window,
)
from pagelens.machine import load_machine
from pagelens.reproduce.programs.contained import Contained
from pagelens.reproduce.programs.pages import random_frames

# By machine the reference figures: mean and largest share of contiguous buffers, mean of packed random pages.
REFERENCES = {
    SLICES_14: (0, 0, 0),
    SLICES_18: (0.012, 0.105, 0.013),
    SLICES_22: (0.001, 0.006, 0.003),
    SLICES_28: (0, 0, 0.003),
    PUBLISHED_KNL: (0.027, 0.085, 0.013),
}
DRAWS = 40


def socket(name: str) -> Socket:
    return socket_of(load_machine(name))


def within_three_errors(shares: np.ndarray, reference: float) -> bool:
    """Returns whether a mean over as many draws as ours is that near."""
    error = float(shares.std(ddof=1)) / math.sqrt(len(shares))
    return abs(float(shares.mean()) - reference) <= 3 * error + 0.0005  # it is stated to three places


@pytest.fixture(scope="module")
def skylake_24() -> np.ndarray:
    return contiguous(socket(SNOOP_FILTER))


@pytest.mark.parametrize("name", REFERENCES)
def test_contiguous_buffers(name: str) -> None:
    mean, most, _ = REFERENCES[name]
    shares = contiguous(socket(name))
    assert shares.mean() == pytest.approx(mean, abs=0.0005)
    assert shares.max() == pytest.approx(most, abs=0.0005)


def test_a_buffer_that_moves_is_counted_as_each_place_anew() -> None:
    of_machine = socket(SLICES_18)
    windows = contiguous_windows(of_machine, wrapping=True)
    places = [0, 1, 5, 200, 503, 504, 510, 511]  # the last ones go on at the GiB's beginning
    assert contiguous(of_machine, wrapping=True)[places].tolist() == pytest.approx(
        excess_shares(of_machine, windows, places).tolist()
    )
    assert len(contiguous(of_machine)) == len(contiguous_windows(of_machine))


def test_contiguous_buffers_on_24_slices(skylake_24: np.ndarray) -> None:
    """Clean in the first 32 MiB, the same every 256 MiB."""
    assert skylake_24.mean() == pytest.approx(0.068, abs=0.0005)
    assert skylake_24.max() == pytest.approx(0.197, abs=0.0005)
    lies_within = (32 - 24) // 2 + 1
    assert not skylake_24[:lies_within].any()
    assert skylake_24[:16].max() > 0.1
    assert np.abs(skylake_24[128:] - skylake_24[:-128]).max() < 0.02


@pytest.mark.parametrize("name", REFERENCES)
def test_random_pages_packed(name: str) -> None:
    assert within_three_errors(random_pages(socket(name), "packed", DRAWS, 1), REFERENCES[name][2])


def test_random_pages_on_24_slices() -> None:
    packed, own = (random_pages(socket(SNOOP_FILTER), packing, DRAWS, 1) for packing in ("packed", "own"))
    assert within_three_errors(packed, 0.026)
    assert within_three_errors(own, 0.011)
    assert packed.mean() > own.mean()


def test_simulated_caches_evict_in_the_order_of_the_static_count() -> None:
    """They evict nothing at all if the count has no conflict."""
    machine = load_machine(SNOOP_FILTER)
    of_machine = socket_of(machine)
    gib = contiguous_windows(of_machine)
    placements = [(gib, number) for number in (0, 13, 29, 53)]
    placements += [(random_window(of_machine, "packed", draw, 1), 0) for draw in range(3)]
    static = np.array([excess_shares(of_machine, windows, [number])[0] for windows, number in placements])
    simulated = np.array([evictions(machine, windows[number]) for windows, number in placements])
    assert (simulated >= static).all()
    assert simulated[static == 0].tolist() == [0] * int((static == 0).sum())
    assert len(set(static)) > 4
    assert np.argsort(simulated, kind="stable").tolist() == np.argsort(static, kind="stable").tolist()


def test_contained_programs_lose_what_the_sum_over_the_same_pages_does() -> None:
    """One line in 16 is followed. A program that moves lines as often as the sum loses as many of them."""
    machine = load_machine(SNOOP_FILTER)
    of_machine = socket(machine.name)
    program = Contained(machine, "l2-sum", HELD_BYTES)
    for draw in range(4):
        window = random_window(of_machine, "packed", draw, 1)
        lost = program.lost(random_frames(machine, program.pages, 1, draw))
        assert lost == pytest.approx(evictions(machine, window[0]), rel=0.15, abs=0.002)
