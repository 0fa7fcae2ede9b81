"""What ageing does to a node's free lists: the table of shares of conflicting pages, and its parts.

The expected shares are those of an experiment with a bare buddy allocator: 96 GiB, a 16 GiB direct-mapped
cache, jobs of 4-80 GB by 68 processes, freed process by process. They hold within two points; independent
random frames give 1 - (1 - f/6)^5.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pagelens import _core
from pagelens.frames import CORI_MIX, age_node, policies
from pagelens.machine import load_machine

KNL = load_machine("cori-knl-cache")
GIB = 2**30
JOBS = (8 * GIB, 15.5 * GIB, 17.6e9)  # bytes of the job that is placed
RANDOM_LIMIT = (0.34, 0.58, 0.60)
FRESH = (0.0, 0.0, 0.048)


def frames_of_next_job(buddy: _core.Buddy, size_bytes: float) -> NDArray[np.int64]:
    """The frames that single-page allocations take: smallest blocks first, each from its bottom up."""
    wanted = int(size_bytes) // 4096
    parts: list[NDArray[np.int64]] = []
    for order in range(11):
        blocks = np.asarray(buddy.free_list(order)[: (wanted >> order) + 1], dtype=np.int64)
        parts.append((blocks[:, None] + np.arange(1 << order)).ravel()[:wanted])
        wanted -= len(parts[-1])
    return np.concatenate(parts)


def conflict_share(frames: NDArray[np.int64], slots: int = KNL.slots) -> float:
    population = np.bincount(frames % slots, minlength=slots)
    return float(population[population > 1].sum() / len(frames))


def conflict_shares(state: _core.NodeState) -> list[float]:
    frames = frames_of_next_job(state.buddy, max(JOBS))
    return [conflict_share(frames[: int(size) // 4096]) for size in JOBS]


def aged(
    jobs: int, seed: int, grain: int = 16, job_bytes: float | None = None, **changes: float
) -> _core.NodeState:
    mix = replace(CORI_MIX, **changes).to_core()  # type: ignore[arg-type]
    random = _core.Random(seed, 0, 0, _core.Stream.history)
    state = _core.NodeState(KNL.frames, grain)
    if job_bytes is not None:
        state.run_job(job_bytes / 4096, mix, random)
    state.age(jobs, mix, random)
    return state


def swept(state: _core.NodeState, stragglers: int, seed: int = 1) -> _core.NodeState:
    after = _core.NodeState(state)
    after.drop_caches(stragglers, _core.Random(seed, 0, 0, _core.Stream.stragglers))
    after.zonesort()
    return after


def test_the_order_in_which_a_job_gets_frames_is_that_of_the_free_lists() -> None:
    buddy = _core.Buddy(8192, 1)
    held = [buddy.alloc(0) for _ in range(5000)]
    for index in np.random.default_rng(1).permutation(5000)[:3000]:
        buddy.free(held[index], 0)
    expected = frames_of_next_job(buddy, 4000 * 4096)
    assert [buddy.alloc(0) for _ in range(4000)] == expected.tolist()


def test_a_fresh_node_has_no_conflicts_until_the_cache_is_full() -> None:
    assert conflict_shares(_core.NodeState(KNL.frames, 16)) == pytest.approx(FRESH, abs=0.001)


@pytest.mark.parametrize("seed", [1, 2])
def test_one_large_job_takes_a_node_to_the_random_limit(seed: int) -> None:
    assert conflict_shares(aged(0, seed, job_bytes=72e9)) == pytest.approx(RANDOM_LIMIT, abs=0.02)


def test_small_jobs_do_not() -> None:
    state = _core.NodeState(KNL.frames, 16)
    random = _core.Random(1, 0, 0, _core.Stream.history)
    for _ in range(10):
        state.run_job(8 * GIB / 4096, CORI_MIX.to_core(), random)
    assert conflict_shares(state)[0] < 0.10


def test_many_jobs_leave_a_node_there() -> None:
    state = aged(30, 1)
    assert conflict_shares(state) == pytest.approx(RANDOM_LIMIT, abs=0.02)
    assert state.page_cache_frames / KNL.frames == pytest.approx(CORI_MIX.cache_share, abs=0.001)


def test_huge_pages_in_the_history_do_not_help() -> None:
    assert conflict_shares(aged(30, 1, huge_share=0.75)) == pytest.approx(RANDOM_LIMIT, abs=0.02)


def test_dropping_all_caches_and_sorting_restores_a_node() -> None:
    after = swept(aged(30, 1), 0)
    assert after.page_cache_frames == 0
    assert after.buddy.free_frames == KNL.frames
    assert conflict_shares(after) == pytest.approx(FRESH, abs=0.001)


@pytest.mark.parametrize("share", [0.0002, 0.002])
def test_a_handful_of_pages_left_defeats_sorting(share: float) -> None:
    after = swept(aged(30, 1, cache_share=0.02), int(share * KNL.frames))
    assert conflict_shares(after) == pytest.approx((0.33, 0.57, 0.59), abs=0.03)


def test_sorting_alone_does_not_help() -> None:
    state = aged(30, 1)
    state.zonesort()
    assert conflict_shares(state)[1] > 0.5


def test_random_frames_conflict_as_the_formula_says() -> None:
    state = age_node(KNL, 1, 1)
    for share, fill in ((0.35, 0.5), (0.59, 15.5 / 16)):
        assert 1 - (1 - fill / 6) ** 5 == pytest.approx(share, abs=0.01)
    assert policies["random"].place(KNL, state).frames == KNL.frames


@pytest.mark.long
def test_the_table_at_grain_1() -> None:
    assert conflict_shares(aged(0, 1, grain=1, job_bytes=72e9)) == pytest.approx(RANDOM_LIMIT, abs=0.02)
    state = aged(30, 1, grain=1)
    assert conflict_shares(state) == pytest.approx(RANDOM_LIMIT, abs=0.02)
    assert conflict_shares(swept(state, 0)) == pytest.approx(FRESH, abs=0.001)


@pytest.mark.parametrize("jobs", [0, 2])
def test_the_grain_hardly_changes_the_shares(jobs: int) -> None:
    # Half the node and of its cache: shares depend on the ratio of the two.
    shares = []
    for grain in (1, 16):
        mix = replace(CORI_MIX, smallest_job_bytes=2e9, largest_job_bytes=40e9).to_core()
        state = _core.NodeState(KNL.frames // 2, grain)
        state.run_job(36e9 / 4096, mix, _core.Random(1, 0, 0, _core.Stream.history))
        state.age(jobs, mix, _core.Random(2, 0, 0, _core.Stream.history))
        shares.append(conflict_share(frames_of_next_job(state.buddy, JOBS[1] / 2), KNL.slots // 2))
    assert shares[0] == pytest.approx(shares[1], abs=0.01)


def test_nodes_of_a_fleet_are_bimodal_and_determined_by_their_key() -> None:
    states = [age_node(KNL, 7, node) for node in range(16)]
    shares = np.array([conflict_share(frames_of_next_job(state.aged.buddy, JOBS[1])) for state in states])
    assert ((shares < 0.1) | (shares > 0.5)).mean() > 0.6
    assert (shares < 0.1).sum() >= 3
    assert (shares > 0.5).sum() >= 3
    again = age_node(KNL, 7, 5)
    assert again.jobs_since_boot == states[5].jobs_since_boot
    assert again.stragglers == states[5].stragglers
    for order in range(11):
        assert again.aged.buddy.free_list(order) == states[5].aged.buddy.free_list(order)
    assert len({state.stragglers for state in states}) > 4


def test_fresh_nodes_have_nothing_to_drop() -> None:
    fresh = [state for state in (age_node(KNL, 7, node) for node in range(16)) if state.jobs_since_boot == 0]
    assert fresh
    assert all(state.stragglers == 0 for state in fresh)
