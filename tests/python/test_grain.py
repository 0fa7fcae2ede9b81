"""The fleet's grain against the exact one: the same conflict shares, on an eighth of several nodes."""

from functools import cache

import numpy as np
import pytest
from machine_roles import CACHE_MODE
from numpy.typing import NDArray

from pagelens import _core
from pagelens.ensemble.scale import shrink
from pagelens.frames import Node, fleet_grain, parse_history
from pagelens.machine import load_machine

PARTS = 8  # shares depend on the ratio of memory to cache
SEEDS = range(1, 5)
JOBS = tuple(size / PARTS for size in (8 * 2**30, 15.5 * 2**30, 17.6e9))  # bytes
PROCESSES = 68
KNL = load_machine(CACHE_MODE)
SLOTS = KNL.slots // PARTS


@cache
def aged(grain: int, seed: int) -> Node:
    return Node(shrink(KNL, 1 / PARTS), seed, 0, grain, parse_history("age(jobs=30)"), scale=1 / PARTS)


def shares(grain: int, seed: int, steps: str) -> list[float]:
    """Returns the shares of jobs of three sizes, after these steps on an aged node."""
    state = aged(grain, seed).after(parse_history(steps)[1:] if steps else ()).state
    pages = int(max(JOBS)) // 4096 // PROCESSES + 1
    frames: NDArray[np.uint32] = _core.place_by_kernel(state, 0).first_frames(PROCESSES, pages)
    found = []
    for size in JOBS:
        population = np.bincount(frames[: int(size) // 4096] % SLOTS, minlength=SLOTS)
        found.append(population[population > 1].sum() / (int(size) // 4096))
    return found


@pytest.mark.parametrize(
    "steps",
    [
        "",
        "drop_caches(left=0); compact; drain; zonesort(address)",
        "drop_caches(left=0); zonesort(address)",
        "drop_caches(left=0.02%); zonesort(address)",
        "drop_caches(left=0.2%); zonesort(address)",
        "drop_caches(0.02%, 100%); compact; zonesort(intel)",
        "drop_caches(0.02%, 100%); compact; zonesort",
        "drop_caches(0.2%, 0); compact; zonesort(intel)",
        "drop_caches(0.2%, 0); zonesort",
    ],
)
def test_the_coarsest_grain_leaves_the_shares_as_they_are(steps: str) -> None:
    """Nodes differ by more than a point from each other, hence the mean, and its standard error."""
    found = np.array([np.subtract(shares(64, seed, steps), shares(1, seed, steps)) for seed in SEEDS])
    error = found.std(axis=0, ddof=1) / np.sqrt(len(SEEDS))
    assert (np.abs(found.mean(axis=0)) < 0.01 + 2 * error).all(), found.mean(axis=0)


def test_small_nodes_are_exact_and_large_ones_cost_no_more() -> None:
    assert [fleet_grain(gib << 18) for gib in (1, 2, 3, 96, 128, 4096)] == [1, 1, 2, 64, 64, 64]
