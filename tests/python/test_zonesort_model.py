"""docs/zonesort.md in the model: no permutation within each list does better, at any point."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from zonesort_rule import sorted_zones

from pagelens import _core

FRAMES, SLOTS = 16 * 1024, 4 * 1024
MOVABLE = _core.MigrateType.movable
ANYWHERE = 2**64 - 1
Blocks = list[tuple[int, int]]  # first frame, order


def fragmented(seed: int, kept: int, run: int, pinned: bool = False) -> _core.Memory:
    """A node on which `kept` runs of pages stayed, at random."""
    memory = _core.Memory(_core.bare_layout(FRAMES), 1)
    kind = _core.MigrateType.unmovable if pinned else MOVABLE
    frames = memory.alloc(0, 0, kind, ANYWHERE, FRAMES, _core.Mark.none)
    assert len(frames) == FRAMES
    rng = np.random.default_rng(seed)
    stays = np.zeros(FRAMES, dtype=bool)
    for first in rng.integers(0, FRAMES - run, kept):
        stays[first : first + run] = True
    freed = np.flatnonzero(~stays).astype(np.uint32)
    rng.shuffle(freed)
    memory.free(0, freed, 0)
    return memory


def lists(memory: _core.Memory) -> list[Blocks]:
    """The movable lists, in the order in which they are used up."""
    found: list[Blocks] = [[] for _ in range(11)]
    for frame, order, kind in memory.free_blocks().tolist():
        if kind == MOVABLE.value:
            found[order].append((frame, order))
    return found


def allocated_slots(memory: _core.Memory) -> NDArray[np.bool_]:
    used = np.ones(FRAMES, dtype=bool)
    for frame, order, _ in memory.free_blocks().tolist():
        used[frame : frame + (1 << order)] = False
    return np.bincount(np.flatnonzero(used) % SLOTS, minlength=SLOTS) > 0


def values(blocks: Blocks, own: NDArray[np.bool_], allocated: NDArray[np.bool_]) -> list[int]:
    """After each block, the value of the slots that a job has: 2, or 1 where an allocated frame lies."""
    own, total, found = own.copy(), 0, []
    for frame, order in blocks:
        slots = np.arange(frame, frame + (1 << order)) % SLOTS
        new = slots[~own[slots]]
        total += 2 * len(new) - int(allocated[new].sum())
        own[slots] = True
        found.append(total)
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from((1, 3, 40, 600)))
def test_the_model_orders_as_the_rule_says(seed: int, kept: int, run: int) -> None:
    memory = fragmented(seed, kept, run)
    memory.sort_for_cache(SLOTS, False, 0)
    zone: dict[tuple[int, int], list[int]] = {}
    for frame, order, kind in memory.free_blocks().tolist():
        zone.setdefault((order, kind), []).append(frame)
    allocated = set(np.flatnonzero(allocated_slots(memory)).tolist())
    assert sorted_zones(SLOTS, allocated, [zone]) == [zone]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from((1, 3, 40, 600)))
def test_no_permutation_within_a_list_is_better_at_any_point(seed: int, kept: int, run: int) -> None:
    memory = fragmented(seed, kept, run)
    memory.sort_for_cache(SLOTS, False, 0)
    allocated, own = allocated_slots(memory), np.zeros(SLOTS, dtype=bool)
    rng = np.random.default_rng(seed)
    for blocks in lists(memory):
        ours = values(blocks, own, allocated)
        if len(blocks) <= 5:
            others = itertools.permutations(blocks)
        else:
            others = (tuple(blocks[i] for i in rng.permutation(len(blocks))) for _ in range(20))
        for other in others:
            theirs = values(list(other), own, allocated)
            assert all(a >= b for a, b in zip(ours, theirs, strict=True))
        for frame, order in blocks:
            own[np.arange(frame, frame + (1 << order)) % SLOTS] = True


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 60), st.sampled_from((1, 5)))
def test_sorting_loses_no_block_and_is_stable(seed: int, kept: int, run: int) -> None:
    memory = fragmented(seed, kept, run)
    before = sorted(memory.free_blocks().tolist())
    memory.sort_for_cache(SLOTS, False, 0)
    once = memory.free_blocks().tolist()
    assert sorted(once) == before
    memory.sort_for_cache(SLOTS, False, 0)
    assert memory.free_blocks().tolist() == once


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_evacuation_makes_whole_blocks_and_keeps_every_page(seed: int, kept: int) -> None:
    memory = fragmented(seed, kept, 1)
    whole = len(lists(memory)[10])
    pages = FRAMES - memory.free_frames
    moves = memory.sort_for_cache(SLOTS, True, 0)
    assert FRAMES - memory.free_frames == pages
    assert len(lists(memory)[10]) >= whole
    assert len(lists(memory)[10]) >= FRAMES // 1024 - 2  # the pages fit one block; one more is at work
    free = np.zeros(FRAMES, dtype=bool)
    for frame, order, _ in memory.free_blocks().tolist():
        assert not free[frame : frame + (1 << order)].any()
        free[frame : frame + (1 << order)] = True
    places = {int(move[0]): int(move[1]) for move in moves}
    assert not any(free[to] for to in places.values() if to not in places)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_a_job_conflicts_no_more_than_under_intels_rule(seed: int, kept: int) -> None:
    memory = fragmented(seed, kept, 1, pinned=True)
    for pages in (SLOTS // 2, SLOTS, SLOTS * 11 // 10):
        used = []
        for ours in (True, False):
            copy = _core.Memory(memory)
            if ours:
                copy.sort_for_cache(SLOTS, True, 0)
            else:
                copy.sort_by_buckets(SLOTS)
            frames = copy.alloc(0, 0, MOVABLE, ANYWHERE, pages, _core.Mark.none)
            used.append(len(np.unique(frames % SLOTS)))
        assert used[0] >= used[1] - 512  # a job may end inside a block


def test_intels_buckets() -> None:
    """Every list by address, but the largest movable blocks by what lies in their first 2 MiB slot."""
    memory = _core.Memory(_core.bare_layout(FRAMES), 1)
    memory.alloc(0, 0, MOVABLE, ANYWHERE, 1, _core.Mark.none)  # breaks the block at frame 0
    memory.sort_by_buckets(SLOTS)
    blocks = memory.free_blocks()
    largest = blocks[blocks[:, 1] == 10][:, 0].tolist()
    # Slots 1, 2, 3 (x 1024 frames) are empty: the first bucket. Slot 0 has 511 pages in its first half:
    # frame 4096 into the second. Then every slot has at least 512 (1023 in slot 0): the third, and all
    # others the last. What was met last comes first.
    assert largest[:8] == [3072, 2048, 1024, 4096, 8192, 7168, 6144, 5120]
    assert largest[8:] == sorted(largest[8:], reverse=True)
    assert blocks[blocks[:, 1] < 10][:, 0].tolist() == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]


def test_the_first_job_after_the_sort_of_a_fresh_node_has_no_conflict() -> None:
    memory = _core.Memory(_core.linux_layout(FRAMES, 2, 4), 1)
    memory.sort_for_cache(1024, True, 0)
    frames = memory.alloc(0, 0, MOVABLE, 1, 1024, _core.Mark.none)
    assert len(np.unique(frames % 1024)) == 1024
