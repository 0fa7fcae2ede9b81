"""Arrays moved apart and machines set otherwise: names, what they change, and what that gains."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import CACHE_MODE, NO_L3, NO_L3_DDR, NO_L3_SWIZZLED, NPS4, ONE_NODE_A_SOCKET
from numpy.typing import NDArray
from test_node_replay import model

from pagelens import _core
from pagelens.accesses.declared import Array, DeclaredWorkload, Loops, Stream, Sweep
from pagelens.accesses.trace import open_trace
from pagelens.accesses.trace_recorder import TraceRecorder
from pagelens.accesses.workload import Workload
from pagelens.ensemble import run_ensemble
from pagelens.ensemble.scale import Scaled
from pagelens.errors import UsageError
from pagelens.explain import explain, has_effect
from pagelens.frames import Node, Policy, find_policy, parse_history, policies
from pagelens.machine import Machine, load_machine
from pagelens.machine.dram import WRITE
from pagelens.replay import Simulation

MIB = 1 << 20
FRAME = 4096
XT4 = load_machine(NO_L3)
KNL = load_machine(CACHE_MODE)


def copy_of(*sizes: int) -> DeclaredWorkload:
    """Arrays of so many bytes; the first is copied to the last with non-temporal stores."""
    names = "abcdefgh"[: len(sizes)]
    first, last = Stream(names[0], _core.StreamKind.read), Stream(names[-1], _core.StreamKind.stream_store)
    touched = tuple(Stream(name, _core.StreamKind.write) for name in names)
    return DeclaredWorkload(
        "copy",
        Loops(
            tuple(Array(name, size) for name, size in zip(names, sizes, strict=True)),
            (Sweep("initialise", 1.0, touched, first_touch=True), Sweep("copy", 1.0, (first, last))),
        ),
        threads=1,
    )


# --- names ---


def test_modifiers_stand_after_any_policy_in_any_order() -> None:
    for name, base in policies.items():
        for text in (f"{name}+offset-64k+swizzle", f"{name}+swizzle+offset-64k"):
            found = find_policy(text)
            assert (found.name, found.offset_bytes, found.setting) == (text, 65536, "swizzle")
            assert (found.steps, found.page_bits, found.rule) == (base.steps, base.page_bits, base.rule)
            assert found.remedy
            assert base.costs.root in found.costs.root
            assert "BIOS" in found.costs.root
            assert "64 KiB" in found.title
            assert "64 KiB" in found.costs.memory
            assert "padding" in found.costs.code
        assert find_policy(name) == base
    assert find_policy("aged+offset-1m").offset_bytes == MIB
    assert find_policy("2m+offset-8k").costs.root == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("agd", "did you mean aged"),
        ("aged+zonesrt", "did you mean aged+zonesort"),
        ("aged+swizle", "aged+swizzle"),
        ("aged+offset", "aged+offset-SIZE"),
        ("aged+offset-64", "aged+offset-SIZE"),
        ("aged+offset-3k", "a multiple of 4k from 4k to 1m"),
        ("aged+offset-2m", "a multiple of 4k from 4k to 1m"),
        ("aged+offset-0k", "a multiple of 4k from 4k to 1m"),
        ("aged+offset-4k+offset-8k", "stands twice"),
        ("aged+swizzle+swizzle", "stands twice"),
        ("aged+nps4+swizzle", "has two settings of the machine"),
        ("+swizzle", "is unknown"),
        ("", "is unknown"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_could_stand_there(name: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_policy(name)
    assert said in str(refused.value)
    assert str(refused.value).startswith("--policies: ")
    assert "\n" not in str(refused.value)


def test_a_setting_that_divides_the_memory_has_a_node_with_that_memory(tmp_path: Path) -> None:
    """A page lies on the quarter of the socket that its thread is in, not on the whole socket."""
    with TraceRecorder(tmp_path / "app.trace", "app", pages_exist=True) as recorder:
        for thread in range(4):
            recorder.access(thread, (thread + 1) * (1 << 30) + 8 * np.arange(1 << 15), stores=True)
    model = load_machine(ONE_NODE_A_SOCKET)
    simulation = Simulation(open_trace(tmp_path / "app.trace"), model, 1)
    node = Node(model, seed=1, node=0, history=parse_history("boot; run"))
    cores = model.cores.count.value
    for name, nodes in (("aged", 2), ("aged+nps4", 8)):
        found = simulation.run(simulation.place(find_policy(name), node)).numa
        assert found is not None
        lines = found.writes.sum(axis=(0, 1))
        assert lines.shape == (nodes, nodes)
        of_threads = np.bincount(np.arange(4) * cores // 4 * nodes // cores, minlength=nodes)
        assert np.diagonal(lines) / lines.sum() == pytest.approx(of_threads / 4, abs=0.02)
    assert node.on(model) is node
    assert node.on(load_machine(NPS4)) is node.on(load_machine(NPS4))


def test_a_setting_is_the_machine_of_that_name_and_none_is_an_error() -> None:
    assert find_policy("aged+swizzle").machine(XT4) == load_machine(NO_L3_SWIZZLED)
    assert find_policy("aged+offset-64k").machine(XT4) is XT4
    with pytest.raises(UsageError, match=rf"no setting 'swizzle', only .*{NO_L3_DDR}, {NO_L3} have"):
        find_policy("aged+swizzle").machine(KNL)


# --- layouts ---


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([FRAME * 3, MIB - FRAME, MIB, MIB + FRAME * 5]), min_size=2, max_size=6),
    offset=st.integers(1, 256).map(lambda pages: pages * FRAME),
)
def test_an_offset_moves_objects_and_changes_no_access(sizes: list[int], offset: int) -> None:
    """Line by line the same program; the i-th array of 1 MiB and what follows it lie i offsets further on."""
    workload = copy_of(*sizes)
    large = [size >= MIB for size in sizes]
    if sum(large) < 2:
        with pytest.raises(UsageError, match="an offset moves at least two apart"):
            workload.compile(XT4, 12, offset)
        return
    plain, moved = (lines_of(workload.compile(XT4, 12, by)) for by in (0, offset))
    ends = np.cumsum(sizes)
    array = np.searchsorted(ends, (plain & ~WRITE).astype(np.int64), side="right")
    offsets = offset * np.maximum(np.cumsum(large) - 1, 0)
    np.testing.assert_array_equal(moved, plain + offsets[array].astype(np.uint64))


def lines_of(program: _core.Program) -> NDArray[np.uint64]:
    """Returns all lines in order, on contiguous frames that begin with the program's first page."""
    placement = _core.place_contiguously(1 << 18)
    lines = _core.PhysicalLines(program, placement, l2_sets=0, l2_ways=1, l2_shared_by=1)
    batches = []
    while (batch := lines.next()).size:
        batches.append(batch.copy())
    return np.concatenate(batches)


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="no qemu-x86_64")
def test_large_blocks_of_a_traced_program(
    tmp_path: Path, pagelens: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Variables and allocations alike, found by their own word; and only by what keeps L1's counts exact."""
    (tmp_path / "app.c").write_text(
        r"""
        #include <stdio.h>
        #include <stdlib.h>
        static char first[3 << 20], small[1000], second[3 << 20];
        int main(void) {
            char *third = malloc(2 << 20);
            for (int i = 0; i < 2 << 20; i += 64) third[i] = first[i] = second[i] = small[i % 1000] = (char)i;
            printf("%lx %lx %lx\n", (long)first / 4096, (long)second / 4096, (long)third / 4096);
        }
        """
    )
    subprocess.run(["gcc", "-O1", "-o", "app", "app.c"], cwd=tmp_path, check=True)
    done = pagelens("trace", "-o", "app.trace", "--", "./app")
    stated = sorted(int(page, 16) for page in done.stdout.split())
    workload = open_trace(tmp_path / "app.trace")
    assert workload.large_blocks == stated
    pages, moved = (workload.compile(KNL, 12, by).pages.astype(np.int64) for by in (0, 64 << 10))
    passed = np.searchsorted(stated[1:], pages, side="right")
    np.testing.assert_array_equal(moved, pages + 16 * passed)
    assert set(passed) == {0, 1, 2}
    with pytest.raises(UsageError, match=f"must be a multiple of 32 KiB on {NO_L3}, not 8 KiB"):
        workload.compile(XT4, 12, 8 << 10)
    workload.compile(XT4, 12, 32 << 10)


# --- gains ---


def replayed(workload: Workload, policy: Policy) -> dict[str, int]:
    """Returns what the DRAM did in the copy, on one core."""
    machine = policy.machine(XT4)
    state = Node(machine, 1, 0, history=parse_history("boot; run"), job_bytes=workload.footprint_bytes)
    counters = _core.replay_node(
        workload.lines_in_order(machine, policy.offset_bytes),
        policy.place(machine, state),
        model(machine),
        ranks=1,
        excerpts=[],
        cancel=_core.CancelFlag(),
    )
    return dict(zip(_core.dram_sum_names(), counters.drams[-1, 0].tolist(), strict=True))


def copied(machine: Machine, distance: int) -> float:
    """Time of the same copy as plain requests, as in docs/results/dram-offsets.md, in picoseconds."""
    assert machine.dram is not None
    lines = np.arange(0, 16 * MIB, 64, dtype=np.uint64)
    requests = np.stack([lines, (lines + np.uint64(distance)) | WRITE], axis=1).ravel()
    simulator = machine.dram.simulator(outstanding=machine.cores.outstanding_lines.value)
    return 1e12 * simulator.run(requests).time_s


def test_a_copy_at_a_bad_distance_gains_what_the_dram_alone_says() -> None:
    """Ferreira, Pedretti, Brightwell (CUG 2008): arrays 128 KiB apart meet in one bank."""
    workload = copy_of(16 * MIB, 16 * MIB)
    before = replayed(workload, find_policy("contiguous"))
    gains = {}
    for modifier, setting, offset in (
        ("offset-8k", "", 8 << 10),
        ("offset-64k", "", 64 << 10),
        ("offset-128k", "", 128 << 10),
        ("swizzle", "-swizzle", 0),
        ("offset-64k+swizzle", "-swizzle", 64 << 10),
    ):
        after = replayed(workload, find_policy(f"contiguous+{modifier}"))
        gains[modifier] = before["time_ps"] / after["time_ps"]
        alone = copied(XT4, 16 * MIB) / copied(load_machine(f"{NO_L3}{setting}"), 16 * MIB + offset)
        assert gains[modifier] == pytest.approx(alone, rel=0.03), modifier
        assert (after["reads"], after["writes"]) == (before["reads"], before["writes"])
        assert (after["row_conflicts"] < before["row_conflicts"] / 10) == (alone > 1.3)
    assert gains["offset-64k"] > 1.3 > gains["offset-8k"] > 1.1 > gains["offset-128k"]


def test_large_pages_keep_an_offset_and_their_own_distance_decides_on_swizzle() -> None:
    """They are touched in turn, so the arrays lie 2 MiB apart: the swizzle has no part of bit 21."""
    workload = copy_of(16 * MIB, 16 * MIB)
    before = replayed(workload, find_policy("2m"))
    after = replayed(workload, find_policy("2m+offset-64k"))
    alone = copied(XT4, 16 * MIB) / copied(XT4, 16 * MIB + (64 << 10))
    assert before["time_ps"] / after["time_ps"] == pytest.approx(alone, rel=0.03)
    swizzled = replayed(workload, find_policy("2m+swizzle"))
    assert swizzled["row_conflicts"] == pytest.approx(before["row_conflicts"], rel=0.05)


def test_an_offset_does_nothing_where_frames_come_in_the_order_of_first_touch() -> None:
    workload = copy_of(4 * MIB, 4 * MIB)
    assert replayed(workload, find_policy("aged+offset-64k")) == replayed(workload, find_policy("aged"))


def test_explain_ranks_them_by_what_they_gain(tmp_path: Path) -> None:
    """Through the ensemble: times of the copy, each over that of its policy without a modifier."""
    workload = copy_of(16 * MIB, 16 * MIB)
    names = ("contiguous", "contiguous+offset-64k", "contiguous+swizzle", "aged", "aged+offset-64k")
    ensemble = run_ensemble(
        workload, Scaled(XT4, 1), {name: find_policy(name) for name in names}, 1, 1, tmp_path, phase="copy"
    )
    rows = ensemble.tables.placements.filter(pl.col("phase") == "copy")
    times = dict(zip(rows["policy"], rows["time_s"], strict=True))
    alone = copied(XT4, 16 * MIB) / copied(XT4, 16 * MIB + (64 << 10))
    assert times["contiguous"] / times["contiguous+offset-64k"] == pytest.approx(alone, rel=0.03)
    assert times["contiguous"] / times["contiguous+swizzle"] == pytest.approx(alone, rel=0.03)
    assert times["aged+offset-64k"] == pytest.approx(times["aged"], rel=1e-3)  # page tables differ
    found = {remedy.policy: remedy for remedy in explain(ensemble).remedies}
    assert found["aged+offset-64k"].gain_median == pytest.approx(1, rel=1e-3)
    assert not has_effect(found["aged+offset-64k"])


def test_what_cannot_be_applied_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for workload, machine, name, said in (
        (copy_of(MIB, FRAME), XT4, "aged+offset-64k", "copy has 1 blocks of 1 MiB or more"),
        (copy_of(MIB, MIB), KNL, "aged+swizzle", "has no setting 'swizzle'"),
    ):
        with pytest.raises(UsageError, match=rf"--policies: '{re.escape(name)}': .*{said}"):
            run_ensemble(workload, Scaled(machine, 1), {name: find_policy(name)}, 1, 1, tmp_path)
        assert not list(tmp_path.iterdir())
