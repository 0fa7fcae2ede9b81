"""Caches and snoop filters as machine files state them, and McCalpin's test of them (SC18)."""

import re

import numpy as np
import pytest
from machine_roles import (
    CHIPLETS,
    EXCLUSIVE_L3,
    FLAT_MODE,
    HASHED_L3,
    INCLUSIVE_L3,
    LARGE_L2,
    SLICED_L3,
    SLICES_16,
    SNOOP_FILTER,
)
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.hashes import load_hash
from pagelens.errors import UsageError
from pagelens.machine import load_machine, machine_directory, parse_machine
from pagelens.machine.caches import Levels, build_caches, count
from pagelens.machine.schema import Machine

LINES = 125_000 * 8 // 64  # that a core of jdmccalpin/SKX-SF-Conflicts holds: 15,625
LARGE = (2 << 20) // 64  # lines of a 2 MiB page
READ, WRITE = np.uint8(_core.AccessKind.read.value), np.uint8(_core.AccessKind.write.value)


def caches_of(machine: Machine, *ideal: str, simulate_l1: bool = False) -> _core.CacheHierarchy:
    inclusion = machine.l2.inclusion.value if machine.l2.inclusion is not None else None
    levels = Levels(simulate_l1, frozenset(ideal))
    return build_caches(
        machine.cores.count.value,
        machine.l1,
        machine.l2,
        inclusion,
        machine.l3,
        machine.snoop_filter,
        levels,
        1,
    )


def held(slices: int, pages: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """[core][line]: what each core holds of one buffer over 2 MiB pages, given by their numbers."""
    index = np.arange(slices * LINES, dtype=np.uint64)
    lines = pages[index // LARGE] * np.uint64(LARGE) + index % np.uint64(LARGE)
    return lines.reshape(slices, LINES)


def above_twelve(slices: int, lines: NDArray[np.uint64]) -> int:
    """Lines above 12 in their slice and set (PA[16:6]): the static count of McCalpin, SC18."""
    its = load_hash(f"skx-{slices}").hash()(lines.ravel() * np.uint64(64)).astype(np.int64)
    sets = (lines.ravel() % np.uint64(2048)).astype(np.int64)
    return int(np.maximum(np.bincount(its * 2048 + sets) - 12, 0).sum())


def evictions(slices: int, lines: NDArray[np.uint64], *ideal: str) -> tuple[int, int]:
    """(SF evictions, L2 fills) while every core cycles three times more over what it holds."""
    caches = caches_of(load_machine({16: SLICES_16, 24: SNOOP_FILTER}[slices]), *ideal)
    order = np.ascontiguousarray(lines.T).ravel()  # the cores in turn
    cores = np.tile(np.arange(slices, dtype=np.uint32), LINES)
    kinds = np.full(len(order), READ)
    caches.access(order, cores, kinds)
    caches.reset_counts()
    for _ in range(3):
        caches.access(order, cores, kinds)
    return int(count(caches, "sf_evictions").sum()), int(count(caches, "l2_lines_in").sum())


def test_cycling_over_held_lines_agrees_in_order_with_the_static_count() -> None:
    """Contiguous 2 MiB pages at several places of a GiB, and random pages of 96 GiB, on 16 and 24 slices."""
    random = np.random.default_rng(2)
    first = {"clean": 0, "middle": 40, "late": 100}
    found: list[tuple[int, int]] = []
    for slices in (16, 24):
        count_pages = -(-slices * LINES // LARGE)
        buffers = [np.arange(start, start + count_pages, dtype=np.uint64) for start in first.values()]
        buffers += [random.choice(48 * 1024, count_pages, replace=False).astype(np.uint64) for _ in range(2)]
        for pages in buffers:
            lines = held(slices, pages)
            found.append((above_twelve(slices, lines), evictions(slices, lines)[0]))
    static, dynamic = zip(*found, strict=True)
    assert static[0] == static[5] == 0  # 16 slices contiguous, and the first 32 MiB of a GiB on 24
    assert max(static) > 10_000
    assert [s == 0 for s in static] == [d == 0 for d in dynamic]
    by_static = [d for _, d in sorted(found)]
    assert by_static == sorted(by_static)


def test_an_unlimited_snoop_filter_takes_no_line_from_anyone() -> None:
    random = np.random.default_rng(3)
    lines = held(24, random.choice(48 * 1024, 12, replace=False).astype(np.uint64))
    limited = evictions(24, lines)
    assert limited[0] > 0
    assert limited[1] >= limited[0]  # every line that is lost is filled again
    assert evictions(24, lines, "snoop_filter", "l2") == (0, 0)


def test_the_bindings_count_what_the_sets_say() -> None:
    """One core, a set of L2 filled with one line more than its ways, dirty: all of it leaves in order."""
    machine = load_machine(FLAT_MODE)
    caches = caches_of(machine)
    ways, sets = machine.l2.ways.value, machine.l2.sets
    lines = np.arange(ways + 1, dtype=np.uint64) * np.uint64(sets) + np.uint64(5)
    words = caches.access(lines, np.zeros(ways + 1, np.uint32), np.full(ways + 1, WRITE))
    assert (words >> np.uint64(17)).tolist() == [*lines.tolist(), 5]
    assert (words & np.uint64(1)).tolist() == [False] * (ways + 1) + [True]
    assert set((words >> np.uint64(1) & np.uint64(0xFFFF)).tolist()) == {0}  # cores
    assert count(caches, "l2_lines_in").tolist()[:2] == [ways + 1, 0]
    twin = caches.copy()
    again = np.array([5], np.uint64), np.zeros(1, np.uint32), np.array([READ])
    twin.access(*again)
    assert count(twin, "l2_misses")[0] == count(caches, "l2_misses")[0] + 1


def test_page_runs_are_their_lines_in_order() -> None:
    machine = load_machine(SNOOP_FILTER)
    random = np.random.default_rng(4)
    frames = random.integers(0, 5000, 400, np.uint32)
    masks = random.integers(0, 1 << 63, 400, np.uint64)
    cores = random.integers(0, 24, 400, np.uint16)
    kinds = random.integers(0, 3, 400, np.uint8)
    by_runs, by_lines = caches_of(machine), caches_of(machine)
    bits = (masks[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1) == 1
    run, line = np.nonzero(bits)
    words = by_lines.access(
        frames[run].astype(np.uint64) * np.uint64(64) + line.astype(np.uint64),
        cores[run].astype(np.uint32),
        kinds[run],
    )
    assert np.array_equal(by_runs.access_runs(frames, masks, cores, kinds), words)
    assert np.array_equal(by_runs.counts, by_lines.counts)


@pytest.mark.parametrize("name", [CHIPLETS, EXCLUSIVE_L3, INCLUSIVE_L3, SLICED_L3, HASHED_L3, LARGE_L2])
@pytest.mark.parametrize("ideal", [(), ("l2", "l3")])
def test_machines_of_every_kind_of_l3_run(name: str, ideal: tuple[str, ...]) -> None:
    machine = load_machine(name)
    inclusion = machine.l2.inclusion.value if machine.l2.inclusion is not None else None
    group = machine.l3.shared_by.value if machine.l3 and machine.l3.shared_by else machine.cores.count.value
    caches = build_caches(
        min(group, 64),
        machine.l1,
        machine.l2,
        inclusion,
        machine.l3,
        machine.snoop_filter,
        Levels(True, frozenset(ideal)),
        1,
    )
    lines = np.tile(np.arange(machine.l2.sets * machine.l2.ways.value * 2, dtype=np.uint64), 3)
    caches.access(lines, np.zeros(len(lines), np.uint32), np.full(len(lines), READ))
    fetched = int(count(caches, "dram_reads").sum())
    assert fetched == len(lines) // 3  # twice L2 fits the L3, whose slices take lines evenly
    assert count(caches, "l2_misses")[0] == sum(
        int(count(caches, c)[0]) for c in ("l3_hits", "core_forwards", "dram_reads")
    )


@pytest.mark.parametrize(
    ("lines", "cores", "kinds", "said"),
    [
        ([1], [24], [0], "core 24 is not below 24"),
        ([1 << 43], [0], [0], "what the caches can tell apart"),
        ([1], [0], [4], "of no kind"),
        ([1, 2], [0], [0], "of one length"),
    ],
)
def test_accesses_that_cannot_be_are_refused_and_change_nothing(
    lines: list[int], cores: list[int], kinds: list[int], said: str
) -> None:
    caches = caches_of(load_machine(SNOOP_FILTER))
    with pytest.raises(ValueError, match=said):
        caches.access(np.array(lines, np.uint64), np.array(cores, np.uint32), np.array(kinds, np.uint8))
    assert not np.asarray(caches.counts).any()


def test_caches_that_cannot_be_are_told_in_one_line() -> None:
    with pytest.raises(
        UsageError, match=r"ideal caches: 'l4' is unknown; choose of l1, l2, l3, snoop_filter"
    ):
        Levels(False, frozenset({"l4"}))
    machine = load_machine(SNOOP_FILTER)
    with pytest.raises(UsageError, match=r"caches: cores: at most 64 L2 caches"):
        build_caches(65, machine.l1, machine.l2, None, machine.l3, None, Levels(False), 1)
    with pytest.raises(UsageError, match=r"caches: l2: an exclusive l2 has one l1 above it"):
        build_caches(1, machine.l1, machine.l2, "exclusive", machine.l3, None, Levels(False), 1)


def changed(old: str, new: str) -> str:
    text = (machine_directory() / f"{SNOOP_FILTER}.toml").read_text()
    assert old in text
    with pytest.raises(UsageError) as error:
        parse_machine(text.replace(old, new, 1).encode(), str(machine_directory() / "x.toml"))
    said = str(error.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"33 MiB"',
            '"32 MiB"',
            r"x\.toml:\d+: 'l3': size / \(64 B x 11 ways x 24 slices\) must be a power of two",
        ),
        (
            "slices = { value = 24",
            "slices = { value = 22",
            r"x\.toml:\d+: 'l3'.*'skx-24' is one of 24 slices, not of 22",
        ),
        (
            'value = "skx-24"',
            'value = "skx-25"',
            r"x\.toml:\d+: 'l3\.hash\.value'.*'skx-25' is unknown; did you mean",
        ),
        (
            "[snoop_filter]",
            "[snoop_filter]\nsets = { value = 2047, assumed = 'x' }",
            r"x\.toml:\d+: .*power of two, not 2047",
        ),
        (
            "[snoop_filter]",
            "[snoop_filter]\nways = { value = 65, assumed = 'x' }",
            r"x\.toml:\d+: .*ways.*less than or equal to 64",
        ),
        (
            "[snoop_filter]",
            "[snoop_filter]\nway = { value = 12, assumed = 'x' }",
            r"x\.toml:\d+: unknown key 'snoop_filter\.way'",
        ),
        (
            "[snoop_filter]",
            "[snoop_filter]\nways = { value = 12 }",
            r"x\.toml:\d+: 'snoop_filter\.ways': state exactly one",
        ),
    ],
)
def test_errors_of_the_sections_name_file_line_and_field(old: str, new: str, said: str) -> None:
    assert re.search(said, changed(old, new))
