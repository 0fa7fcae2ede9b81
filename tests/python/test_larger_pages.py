"""Kernels whose pages are of 64 KiB: what is placed and cleared is sixteen neighbours at a time."""

import numpy as np
import pytest
from machine_roles import L1_OF_FOUR_WAYS, PAGES_OF_64K

from pagelens import _core
from pagelens.accesses.declared import Array, DeclaredWorkload, Loops, Sweep
from pagelens.accesses.declared.loops import read, write
from pagelens.errors import UsageError
from pagelens.explain.remedies import default_policies
from pagelens.frames import Node, find_policy, parse_history
from pagelens.machine import Machine, load_machine, parse_machine
from pagelens.replay import Run, Simulation
from pagelens.replay.placement import place

KIB, MIB = 1 << 10, 1 << 20
NODES = (
    f'schema = 1\nbase = "{L1_OF_FOUR_WAYS}"\n'
    + """\
name = "small"
title = "Small"
mode = "single"
[cores]
count = { value = 2, assumed = "small" }
[l2]
size = { value = "64 KiB", assumed = "small" }
[l3]
size = { value = "384 KiB", assumed = "small" }
slices = { value = 2, assumed = "small" }
shared_by = { value = 1, assumed = "small" }
[ddr]
size = { value = "2 GiB", assumed = "small" }
[numa]
cores = { value = [1, 1], assumed = "small" }
sizes = { value = ["1 GiB", "1 GiB"], assumed = "small" }
"""
)
UNEVEN = NODES.replace('"1 GiB", "1 GiB"', '"1 GiB", "1022 MiB"').replace("2 GiB", "2046 MiB")
FAULT = '[page_fault]\nsmall = { value = "500 ns", assumed = "small" }\n'
PAGES = '[pages]\nsize = {{ value = "{}", assumed = "a kernel for Arm" }}\n'


def machine(pages: str) -> Machine:
    return parse_machine((NODES + PAGES.format(pages)).encode(), "small.toml")


def halves(size: int) -> DeclaredWorkload:
    """Two threads, on a node each, write and then read a half of an array."""
    sweeps = (Sweep("initialise", 4.0, write("a"), first_touch=True), Sweep("use", 4.0, read("a")))
    return DeclaredWorkload("halves", Loops((Array("a", size),), sweeps, {}), threads=2)


def run(of: Machine, size: int, policy: str = "aged", history: str = "boot; run") -> Run:
    node = Node(of, 1, 0, history=parse_history(history))
    return Simulation(halves(size), of, 1).run(place(find_policy(policy), of, node))


def remote_lines(found: Run) -> float:
    assert found.numa is not None
    reads = found.numa.reads.sum(axis=(0, 1))
    return float(reads.sum() - np.trace(reads))


def test_a_page_on_the_border_of_two_threads_lies_with_the_first() -> None:
    # Half of the array is 4 MiB and 8 KiB: with pages of 64 KiB, the second half begins in the first's page.
    size = 8 * MIB + 16 * KIB
    assert remote_lines(run(machine("4 KiB"), size)) == 0
    border = remote_lines(run(machine("64 KiB"), size)) * 64
    assert 0 < border <= 64 * KIB
    assert remote_lines(run(machine("64 KiB"), 8 * MIB)) == 0


def test_the_thread_that_uses_most_of_a_page_touches_it_first() -> None:
    # The page on the border has 56 KiB of the first half, whose thread comes there last.
    size = 8 * MIB - 16 * KIB
    by_use, as_it_is = (remote_lines(run(machine("64 KiB"), size, policy)) for policy in ("touch", "aged"))
    assert by_use / as_it_is == pytest.approx(8 / 56)


def test_interleaving_goes_by_pages_of_64_kib() -> None:
    frames = {}
    for pages in ("4 KiB", "64 KiB"):
        found = run(machine(pages), 8 * MIB, "interleave")
        assert found.numa is not None
        frames[pages] = found.numa.reads.sum(axis=(0, 1))
    # As many lines come from each node, whatever the size of a page that divides both halves.
    assert frames["64 KiB"] == pytest.approx(frames["4 KiB"])


@pytest.mark.parametrize("pages", ["16 KiB", "64 KiB"])
def test_a_node_with_larger_pages_is_one_of_fewer_frames(pages: str) -> None:
    of = machine(pages)
    node = Node(of, 1, 0, history=parse_history("boot; age(3); io(64MiB); drop_caches; run"))
    larger = 1 << of.page_order
    memory = node.aged.state.memory
    assert memory.frames == of.frames // larger
    given = place(find_policy("aged"), of, node).frames.first_frames(1, 64)
    assert len(given) == 64
    assert (given.reshape(-1, larger) == given[::larger, None] + np.arange(larger)).all()
    assert (given[::larger] % larger == 0).all()
    # Two megabytes are neighbours, too, and aligned to their size.
    assert place(find_policy("2m"), of, node).frames.page_order == 9


def test_what_linux_keeps_free_and_the_lists_of_a_cpu_follow_the_size_of_its_pages() -> None:
    """Linux has init_per_zone_wmark_min(), set_recommended_min_free_kbytes() and zone_batchsize()."""
    for order in (0, 2, 4):
        frames = (64 << 30) >> (12 + order)
        zones = _core.linux_layout(frames, 1, 8, (4 << 30) >> (12 + order), order).zones
        kibibytes = 4 << order
        of_table = 512 << order  # pages that a page table maps
        recommended = min(of_table * len(zones) * (2 + 3 * 3), frames // 20)
        rooted = min(max(int((frames * kibibytes * 16) ** 0.5), 128), 262144) // kibibytes
        kept = max(rooted, recommended)
        assert abs(sum(zone.min for zone in zones) - kept) <= len(zones)
        batch = max(1, min((zones[-1].end - zones[-1].begin) >> 10, (1 << 20) // (kibibytes << 10)) // 4)
        assert zones[-1].pcp_batch == (1 << (batch + batch // 2).bit_length() - 1) - 1


@pytest.mark.parametrize(
    ("policy", "history", "why"),
    [
        ("1g", "boot; run", "'1g' is modelled for kernels with pages of 4 KiB, and that of small has 64 KiB"),
        ("balanced", "boot; run", "'balanced' is modelled"),
        ("aged", "boot; hugetlb(64MiB); run", "'hugetlb' is modelled"),
    ],
)
def test_what_is_not_modelled_is_refused(policy: str, history: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        run(machine("64 KiB"), 8 * MIB, policy, history)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NODES + PAGES.format("8 KiB"), "4, 16 or 64 KiB"),
        (NODES + FAULT + PAGES.format("64 KiB"), r"\[page_fault\] is of a kernel with pages of 4 KiB"),
        (UNEVEN + PAGES.format("64 KiB"), "whole 32 MiB"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_modelled_says_why(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_machine(text.encode(), "small.toml")


def test_only_policies_for_its_pages_are_compared() -> None:
    of = machine("64 KiB")
    assert all(policy.suits_larger_pages for policy in default_policies(halves(8 * MIB), of).values())
    assert "1g" in default_policies(halves(8 * MIB), machine("4 KiB"))


def test_grace_boots_the_kernel_that_its_maker_recommends() -> None:
    assert load_machine(PAGES_OF_64K).page_bytes == 64 * KIB
