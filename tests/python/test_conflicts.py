"""Conflicts told from addresses: equal to a line-by-line count, and swaps gain what they say."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelens.address.hashes import load_hash
from pagelens.conflicts import Pages, Prediction, Shared, Socket, find_swaps, predict
from pagelens.errors import UsageError

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SKX_14, SKX_24 = load_hash("skx-14").hash(), load_hash("skx-24").hash()
REACH = 1 << 38
# A socket on which small sets of pages conflict.
SMALL = Socket(
    "small",
    "Small",
    6,
    2,
    64,
    4,
    (Shared("filter", SKX_14, 32, 3, REACH), Shared("L3", SKX_14, 64, 2, REACH)),
)
SKYLAKE = Socket("skx", "Skylake", 24, 1, 1024, 16, (Shared("snoop filter", SKX_24, 2048, 12, REACH),))


def pages_of(addresses: list[int], sizes: list[int] | int, cores: list[int] | None = None) -> Pages:
    sizes = [sizes] * len(addresses) if isinstance(sizes, int) else sizes
    return Pages(
        np.array(addresses, dtype=np.uint64),
        np.array(sizes, dtype=np.int64),
        None if cores is None else np.array(cores),
    )


def slow_window(
    socket: Socket, pages: Pages, cores: int, held: int, number: int
) -> list[tuple[int, int, int]]:
    """Page, line's address and L2 of every line of a window, from a plain list of all lines."""
    l2s = -(-cores // socket.cores_per_l2)
    lines: dict[int, list[tuple[int, int]]] = {}
    for page, (address, size) in enumerate(zip(pages.addresses.tolist(), pages.sizes.tolist(), strict=True)):
        buffer = 0 if pages.cores is None else int(pages.cores[page]) // socket.cores_per_l2
        lines.setdefault(buffer, []).extend((page, address + at) for at in range(0, size, 64))
    most = held // 64
    found = []
    for buffer, every in lines.items():
        if pages.cores is None:
            shares = [most] * l2s
            if len(every) < l2s * most:
                shares = [len(every) * (l2 + 1) // l2s - len(every) * l2 // l2s for l2 in range(l2s)]
        else:
            shares = [min(most, len(every))]
        last = (len(every) - sum(shares)) // (2 * MIB // 64)
        at = min(number, last) * (2 * MIB // 64)
        for l2, share in enumerate(shares, buffer):
            found += [(page, address, l2) for page, address in every[at : at + share]]
            at += share
    return found


def check_against_slow(found: Prediction) -> None:
    shared = found.socket.shared[0]
    hashes = [structure.slices for structure in found.socket.shared]
    for start, share in zip(found.starts.tolist(), found.shares.tolist(), strict=True):
        window = slow_window(found.socket, found.pages, found.cores, found.held_bytes, start // (2 * MIB))
        addresses = np.array([address for _, address, _ in window], dtype=np.uint64)
        keys = list(zip(hashes[0](addresses).tolist(), (addresses // 64 % shared.sets).tolist(), strict=True))
        fall = Counter(keys)
        excess = sum(max(0, n - shared.ways) for n in fall.values())
        assert share == pytest.approx(excess / len(window))
        if start != found.starts[found.worst]:
            continue
        # The worst window, in every detail.
        assert share == found.shares.max()
        crowded = [key for key in keys if fall[key] > shared.ways]
        count = found.counts[0]
        assert (count.lines, count.excess, count.crowded) == (len(window), excess, len(crowded))
        sizes = Counter(fall.values())
        sizes[0] = shared.slices.values * shared.sets - len(fall)
        assert {n: sets for n, sets in enumerate(count.histogram) if sets} == {
            n: s for n, s in sizes.items() if s
        }
        by_page = {page.page: (page.lines, page.crowded, page.l2s) for page in found.by_page}
        for page, values in by_page.items():
            own = [index for index, (of, _, _) in enumerate(window) if of == page]
            assert values == (
                len(own),
                sum(fall[keys[index]] > shared.ways for index in own),
                tuple(sorted({window[index][2] for index in own})),
            )
        assert set(by_page) == {page for page, _, _ in window}
        expected = [window[index][1] for index, key in enumerate(keys) if fall[key] > shared.ways]
        assert sorted(found.crowded_lines()) == sorted(expected)
        l2 = Counter((l2, address // 64 % found.socket.l2_sets) for _, address, l2 in window)
        assert found.counts[-1].excess == sum(max(0, n - found.socket.l2_ways) for n in l2.values())
        assert found.counts[-1].crowded == sum(n for n in l2.values() if n > found.socket.l2_ways)
        assert sum(found.counts[-1].histogram) == len({l2 for _, _, l2 in window}) * found.socket.l2_sets


@st.composite
def page_lists(draw: st.DrawFn) -> Pages:
    frames = draw(st.lists(st.integers(0, (1 << 26) - 1), min_size=1, max_size=40, unique=True))
    cores = draw(st.none() | st.lists(st.integers(0, 5), min_size=len(frames), max_size=len(frames)))
    return pages_of([frame * 4 * KIB for frame in frames], 4 * KIB, cores)


@given(page_lists(), st.integers(64, 16 * KIB))
def test_equal_to_a_count_line_by_line(pages: Pages, held: int) -> None:
    check_against_slow(predict(SMALL, pages, held_bytes=held))


@settings(max_examples=5)
@given(st.integers(0, 1000), st.booleans())
def test_windows_are_2_mib_apart(seed: int, own: bool) -> None:
    """Pages of both sizes, as a process has them; one buffer, or one a core."""
    draw = np.random.default_rng(seed)
    sizes = draw.choice([4 * KIB, 2 * MIB], 8, p=[0.5, 0.5]).tolist()
    places = draw.choice(512, 8, replace=False).tolist()
    cores = draw.integers(0, 6, 8).tolist() if own else None
    found = predict(SMALL, pages_of([place * 2 * MIB for place in places], sizes, cores), held_bytes=10_000)
    assert own or len(found.shares) == (sum(sizes) - 3 * (10_000 // 64 * 64)) // (2 * MIB) + 1
    check_against_slow(found)


def test_no_conflict_with_as_many_lines_as_ways_and_one_with_one_more() -> None:
    """Pages of one colour: each line of a page shares its slice and set with one line of every other."""
    zero = SKX_24(np.arange(0, 4 * KIB, 64, dtype=np.uint64)).tolist()
    same = [
        address
        for address in range(0, 1 << 34, 2 * MIB)
        if SKX_24(np.arange(address, address + 4 * KIB, 64, dtype=np.uint64)).tolist() == zero
    ]
    twelve = predict(SKYLAKE, pages_of(same[:12], 4 * KIB))
    thirteen = predict(SKYLAKE, pages_of(same[:13], 4 * KIB))
    assert twelve.counts[0].excess == 0
    assert thirteen.counts[0].excess == 64
    assert len(thirteen.crowded_lines()) == 13 * 64
    assert [page.crowded for page in thirteen.by_page] == [64] * 13


def test_l2s_conflict_where_one_core_holds_too_many_lines_of_a_set() -> None:
    frames = [number * 64 * KIB for number in range(17)]
    assert predict(SKYLAKE, pages_of(frames, 4 * KIB), cores=1, held_bytes=MIB).counts[-1].excess == 64
    assert predict(SKYLAKE, pages_of(frames[:16], 4 * KIB), cores=1).counts[-1].excess == 0
    both = frames + [MIB * 64 + frame for frame in frames]
    of_two = predict(SKYLAKE, pages_of(both, 4 * KIB, [0] * 17 + [1] * 17)).counts[-1]
    assert (of_two.excess, of_two.crowded) == (2 * 64, 2 * 17 * 64)
    assert of_two.histogram[17] == 2 * 64


def test_each_core_has_its_own_pages() -> None:
    """With cores, every L2 holds its own pages. Else the L2s hold neighbouring parts of all pages."""
    addresses = [number * 2 * MIB for number in range(24)]
    own = predict(SKYLAKE, pages_of(addresses, 2 * MIB, list(range(24))), held_bytes=1_000_000)
    assert len(own.shares) == 1
    assert [page.lines for page in own.by_page] == [15625] * 24
    packed = predict(SKYLAKE, pages_of(addresses, 2 * MIB), held_bytes=1_000_000)
    assert len(packed.shares) == 13
    assert sum(page.lines for page in packed.by_page) == 24 * 15625


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.booleans())
def test_swaps_gain_what_they_say(seed: int, own: bool) -> None:
    draw = np.random.default_rng(seed)
    places = (draw.choice(1 << 14, 160, replace=False) * 4 * KIB).tolist()
    cores = draw.integers(0, 6, 60).tolist() if own else None
    pages, pool = pages_of(places[:60], 4 * KIB, cores), pages_of(places[60:], 4 * KIB)
    before = predict(SMALL, pages)
    key = before.shares.max(), before.shares.mean()
    for swap in find_swaps(SMALL, pages, pool, 5):
        assert swap.old == pages.addresses[swap.page]
        assert swap.new in pool.addresses
        addresses = pages.addresses.copy()
        addresses[swap.page] = swap.new
        pages = replace(pages, addresses=addresses)
        after = predict(SMALL, pages)
        assert after.shares.max() == pytest.approx(swap.worst_share)
        assert after.shares.mean() == pytest.approx(swap.mean_share)
        assert (swap.worst_share, swap.mean_share) < key
        key = swap.worst_share, swap.mean_share
    assert len(set(pages.addresses.tolist())) == 60


def test_one_swap_is_the_best_there_is() -> None:
    """There are so few colours here that every pair of a crowded page and a page of the pool is tried."""
    draw = np.random.default_rng(7)
    places = (draw.choice(1 << 14, 40, replace=False) * 4 * KIB).tolist()
    pages, pool = pages_of(places[:10], 4 * KIB), pages_of(places[10:], 4 * KIB)
    tight = replace(SMALL, shared=(Shared("filter", SKX_14, 32, 1, REACH),))
    (swap,) = find_swaps(tight, pages, pool, 1)
    best = 1.0
    for page in range(10):
        for new in pool.addresses:
            addresses = pages.addresses.copy()
            addresses[page] = new
            best = min(best, float(predict(tight, replace(pages, addresses=addresses)).shares.max()))
    assert swap.worst_share == pytest.approx(best)
    assert best < predict(tight, pages).shares.max()


def test_swaps_take_windows_into_account() -> None:
    """Forty random pages of 2 MiB: what a swap gains in the worst window it does not lose in another."""
    places = (np.random.default_rng(3).choice(96 * 512, 2040, replace=False) * 2 * MIB).tolist()
    pages, pool = pages_of(places[:40], 2 * MIB), pages_of(places[40:], 2 * MIB)
    before = predict(SKYLAKE, pages, held_bytes=1_000_000)
    swaps = find_swaps(SKYLAKE, pages, pool, 8, held_bytes=1_000_000)
    assert before.shares.max() > 0.01
    assert swaps[-1].worst_share == 0


def test_only_pages_of_the_pools_size_are_swapped() -> None:
    draw = np.random.default_rng(1)
    places = (draw.choice(1 << 10, 100, replace=False) * 2 * MIB).tolist()
    sizes = [2 * MIB] * 2 + [4 * KIB] * 48
    pool = pages_of(places[50:], 4 * KIB)
    swaps = find_swaps(SMALL, pages_of(places[:50], sizes), pool, 3)
    assert swaps
    assert all(swap.page >= 2 for swap in swaps)
    large = pages_of(places[:3], 2 * MIB, [0, 2, 4])
    tight = replace(SMALL, shared=(Shared("filter", SKX_14, 32, 1, REACH),))
    assert find_swaps(tight, large, pages_of(places[50:], 2 * MIB), 1)
    assert find_swaps(tight, large, pool, 1) == ()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"cores": 25}, "--cores 25: skx has 24 on a socket; give 1 to 24"),
        ({"cores": 0}, "--cores 0"),
        ({"held_bytes": 63}, "--held 63 bytes: from a line, 64B, to an L2, 1 MiB"),
        ({"held_bytes": MIB + 1}, "--held 1048577 bytes"),
    ],
)
def test_impossible_values_are_refused(arguments: dict[str, int], named: str) -> None:
    with pytest.raises(UsageError) as error:
        predict(SKYLAKE, pages_of([0], 2 * MIB), **arguments)
    assert named in str(error.value)


def test_what_is_not_known_is_refused() -> None:
    reach = 1 << 38
    predict(SKYLAKE, pages_of([reach - 2 * MIB], 2 * MIB))
    with pytest.raises(UsageError, match="address 0x4000000000: the slices are known below 0x4000000000"):
        predict(SKYLAKE, pages_of([0, reach], 2 * MIB))
    with pytest.raises(UsageError, match="core 24 holds a page, but --cores is 24"):
        predict(SKYLAKE, pages_of([0], 2 * MIB, [24]))
    with pytest.raises(UsageError, match="pool: physical address"):
        find_swaps(SKYLAKE, pages_of([0], 2 * MIB), pages_of([reach], 2 * MIB), 1)
    with pytest.raises(UsageError, match="every page of it is in the list already"):
        find_swaps(SKYLAKE, pages_of([0], 2 * MIB), pages_of([0], 2 * MIB), 1)
