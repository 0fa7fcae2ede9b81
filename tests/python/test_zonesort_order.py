"""zonesort/order.c, compiled outside the kernel, against the rule said slowly and every permutation."""

import ctypes
import itertools
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zonesort_rule import rule, slots_of

ROOT = Path(__file__).parents[2]
BLOCK = 1024  # frames of the largest free block

Order = Callable[[int, int, set[int], set[int], int, Sequence[int]], tuple[list[int], set[int]]]


class Cache(ctypes.Structure):
    """struct zs_cache."""

    _fields_ = (
        ("slots", ctypes.c_uint64),
        ("granule", ctypes.c_uint64),
        ("allocated", ctypes.POINTER(ctypes.c_uint64)),
        ("own", ctypes.POINTER(ctypes.c_uint64)),
    )


def bitmap(members: set[int], slots: int) -> ctypes.Array[ctypes.c_uint64]:
    words = (ctypes.c_uint64 * (slots // 64))()
    for slot in members:
        words[slot // 64] |= 1 << slot % 64
    return words


@pytest.fixture(scope="session")
def order(tmp_path_factory: pytest.TempPathFactory) -> Order:
    folder = tmp_path_factory.mktemp("order")
    source = ROOT / "zonesort" / "order.c"
    (folder / "linux").mkdir()
    for text in (source.read_text(), source.with_suffix(".h").read_text()):
        for header in re.findall(r"#include <(linux/\w+\.h)>", text):
            (folder / header).write_text('#include "shim.h"\n')
    library = folder / "order.so"
    include = [f"-I{folder}", f"-I{ROOT / 'tests' / 'zonesort'}"]
    warnings = ["-Wall", "-Wextra", "-Wno-sign-compare", "-Werror"]
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", *warnings, *include, "-o", library, source], check=True)
    native = ctypes.CDLL(str(library))

    def call(
        slots: int, granule: int, allocated: set[int], own: set[int], at_order: int, blocks: Sequence[int]
    ) -> tuple[list[int], set[int]]:
        mine, theirs = bitmap(own, slots), bitmap(allocated, slots)
        cache = Cache(slots, granule, theirs, mine)
        frames, spare = (ctypes.c_uint64 * len(blocks))(*blocks), (ctypes.c_uint64 * len(blocks))()
        native.zs_order(ctypes.byref(cache), at_order, frames, spare, ctypes.c_size_t(len(blocks)))
        return list(frames), {slot for slot in range(slots) if mine[slot // 64] >> slot % 64 & 1}

    return call


@st.composite
def lists(draw: st.DrawFn) -> tuple[int, set[int], set[int], int, list[int]]:
    slots = BLOCK * draw(st.integers(1, 5))
    at_order = draw(st.integers(0, 10))
    # Sets of slots as unions of runs: single slots, whole blocks and what lies between.
    runs = st.lists(st.tuples(st.integers(0, slots - 1), st.integers(1, 2 * BLOCK)), max_size=6)
    allocated, own = ({slot for at, n in draw(runs) for slot in range(at, min(at + n, slots))} for _ in "ab")
    blocks = draw(st.lists(st.integers(0, 40 * BLOCK >> at_order), unique=True, max_size=40))
    return slots, allocated, own, at_order, [block << at_order for block in blocks]


@given(lists())
def test_the_module_orders_as_the_rule_says(
    order: Order, drawn: tuple[int, set[int], set[int], int, list[int]]
) -> None:
    slots, allocated, own, at_order, blocks = drawn
    ordered, own_after = order(slots, 1, allocated, own, at_order, blocks)
    assert ordered == rule(slots, allocated, own, at_order, blocks)
    assert own_after == own.union(*(slots_of(block, at_order, slots) for block in blocks))


@given(st.sets(st.integers(0, 2 * BLOCK - 1)), st.sets(st.integers(0, 11), min_size=1, max_size=4))
def test_no_permutation_gives_any_number_of_blocks_slots_of_more_value(
    order: Order, allocated: set[int], numbers: set[int]
) -> None:
    slots, at_order = 2 * BLOCK, 9
    blocks = [number << at_order for number in numbers]

    def values(sequence: Sequence[int]) -> list[int]:
        held = [
            set[int]().union(*(slots_of(block, at_order, slots) for block in sequence[:n]))
            for n in range(len(sequence) + 1)
        ]
        return [len(used) + len(used - allocated) for used in held]

    ours = values(order(slots, 1, allocated, set(), at_order, blocks)[0])
    for other in itertools.permutations(blocks):
        assert all(mine >= theirs for mine, theirs in zip(ours, values(other), strict=True))


@given(st.sets(st.integers(0, 11), min_size=1, max_size=6))
def test_no_permutation_puts_fewer_of_any_number_of_blocks_into_the_fullest_slots(
    order: Order, numbers: set[int]
) -> None:
    slots, at_order = 2 * BLOCK, 9
    blocks = [number << at_order for number in numbers]

    def fullest(sequence: Sequence[int]) -> list[int]:
        groups = [block % slots for block in sequence]
        return [max(map(groups[:n].count, groups[:n])) for n in range(1, len(groups) + 1)]

    ours = fullest(order(slots, 1, set(), set(), at_order, blocks)[0])
    for other in itertools.permutations(blocks):
        assert all(mine <= theirs for mine, theirs in zip(ours, fullest(other), strict=True))


@given(lists(), st.booleans())
def test_no_slot_is_used_twice_before_the_list_comes_round_to_the_first_again(
    order: Order, drawn: tuple[int, set[int], set[int], int, list[int]], empty: bool
) -> None:
    """It holds from a group's second block on, or from the first if groups gain alike (an empty cache)."""
    slots, allocated, own, at_order, blocks = drawn
    if empty:
        allocated, own = set(), set()
    groups = [block % slots for block in order(slots, 1, allocated, own, at_order, blocks)[0]]
    for at, group in enumerate(groups):
        later = groups[at + 1 :]
        if group in later and (empty or group in groups[:at]):
            stretch = later[: later.index(group)]
            assert len(set(stretch)) == len(stretch)


def test_contiguous_memory_stays_in_its_order(order: Order) -> None:
    """So that what is handed out wraps round the cache as contiguous memory does."""
    blocks = [number * BLOCK for number in range(12)]
    assert order(4 * BLOCK, 1, set(), set(), 10, blocks[::-1])[0] == blocks


def test_a_slot_of_many_frames_is_taken_by_one_of_them(order: Order) -> None:
    _, own = order(2 * BLOCK, 512, set(), set(), 0, [700])
    assert own == set(range(512, 1024))


def test_frames_beyond_the_first_tebibyte_keep_their_addresses(order: Order) -> None:
    blocks = [(1 << 35) + 3 * BLOCK, (1 << 28) + 5 * BLOCK, 7 * BLOCK]
    assert order(4 * BLOCK, 1, set(), set(), 10, blocks)[0] == rule(4 * BLOCK, set(), set(), 10, blocks)
