"""This machine as `machines detect --measure` leaves it for `explain`."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from machine_roles import AVX2, AVX512, CACHE_MODE, CHIPLETS, PIPELINE, TWO_SOCKETS, VICTIM_L3

import pagelens
from pagelens import _probes
from pagelens.errors import Failure
from pagelens.machine import choose_machine, measured_file, parse_machine
from pagelens.machine.detect import Description
from pagelens.machine.possible import is_possible
from pagelens.measure import chases, issue_rate, of_machine, session
from pagelens.measure.branches import mispredict_section
from pagelens.measure.chases import chase_ns
from pagelens.measure.issue_rate import IssueRates, issue_width
from pagelens.measure.of_machine import check_latencies, lines_in_flight, usable_ways
from pagelens.measure.path_widths import path_widths
from pagelens.measure.tlb import chased_pages, host_section, usable_arrays, walk_section
from pagelens.reproduce.programs.one_core import KERNELS, Core
from pagelens.values.quantities import Sourced

Run = Callable[..., subprocess.CompletedProcess[str]]

MEASURED = ("ddr.bandwidth", "ddr.latency", "l2.latency", "l2.width", "cores.outstanding_lines")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns where the file of this machine is kept, for this test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return measured_file()


def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure each speed once, in less memory than it would take for good figures.

    The clock that follows from one of them may be too low for a path between caches to take any time.
    """
    monkeypatch.setattr(of_machine, "REPEATS", 1)
    monkeypatch.setattr(of_machine, "_frequency", lambda machine, first: 1e10)
    monkeypatch.setattr(session, "last_level_bytes", lambda cpus, machine: 16 << 20)
    for bound in ("_LEAST_BYTES", "_MOST_BYTES"):
        monkeypatch.setattr(of_machine, bound, 24 << 20)
    monkeypatch.setattr(of_machine, "_SHARES_OF_L3", (1 / 32, 1 / 16))


def test_what_is_measured_takes_the_place_of_what_is_assumed(
    kept: Path, in_process: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    quickly(monkeypatch)
    before = choose_machine(None)
    assert "detect --measure" in before.note
    assert in_process("machines", "detect", "--measure").returncode == 0
    after = choose_machine(None)
    assert f"as measured ({kept})" in after.note
    assert after.text == kept.read_text()
    for name in MEASURED:
        section, key = name.split(".")
        value = getattr(getattr(after.machine, section), key)
        assert (value.source or "").startswith("measured here"), name
    assert after.machine.page_fault is not None
    assert (after.machine.page_fault.small.source or "").startswith("measured here")
    assert after.machine.l2.size == before.machine.l2.size
    if after.machine.pipeline is not None:
        assert (after.machine.pipeline.load_misses.source or "").startswith("measured here")
        assert (after.machine.pipeline.mispredict_cycles.source or "").startswith("measured here")
    if after.machine.l3 is not None:
        assert after.machine.l3.width is not None
        assert (after.machine.l3.width.source or "").startswith("measured here")
    assert after.machine.l2.latency is not None
    assert after.machine.l2.latency.value < after.machine.ddr.latency.value


@pytest.mark.parametrize("name", [AVX2, AVX512, VICTIM_L3, CHIPLETS])
def test_widths_are_those_with_which_the_model_gives_the_rates(name: str) -> None:
    """The sum that is measured is the model's with these widths, in turn or at once, both ways or not."""
    machine = pagelens.machine(name)
    core, clock = Core(machine, 32), machine.cores.frequency.value
    rates = {
        level.lower(): (1 << 20, 64 / core.times(KERNELS["load"], level).resources["caches"][0])
        for level in ("L2", "L3")
    }
    found = path_widths(machine, clock, 32, rates)
    assert machine.l2.width is not None
    assert machine.l3 is not None
    assert machine.l3.width is not None
    assert found["l2"].value == pytest.approx(machine.l2.width.value, rel=0.01)
    assert found["l3"].value == pytest.approx(machine.l3.width.value, rel=0.01)


def test_a_file_of_another_machine_is_not_taken(kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_text("no machine")
    assert "cannot be used" in choose_machine(None).note
    text = choose_machine(None).text
    kept.write_text(text.replace('title = "', 'title = "Not ', 1))
    taken = choose_machine(None)
    assert f"({kept} is of another)" in taken.note
    assert taken.text == text


def test_interrupted_stretches_of_a_chase_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, most stretches are slowed by others. The undisturbed ones say what a load takes."""

    class Result:
        ok = True

        def __init__(self, loads: int, repeats: int) -> None:
            self.seconds = 4e-9 * loads * np.where(np.arange(repeats) % 6 == 0, 1.0, 3.0)

    def latency(memory: object, size: int, stride: int, loads: int, repeats: int, *rest: int) -> Result:
        return Result(loads, repeats)

    monkeypatch.setattr(chases._probes, "latency", latency)
    assert chase_ns([1 << 16, 1 << 17], "4k") == pytest.approx([4.0, 4.0])


def test_lines_in_flight_are_those_of_the_loop_that_reads_most() -> None:
    """A copy's writes may slow its reads."""
    assert lines_in_flight(64.0, 32.0, 100.0) == 50  # 32 GB/s read by the copy
    assert lines_in_flight(64.0, 64.0, 100.0) == 100
    assert lines_in_flight(0.1, 0.1, 1.0) == 1


MB = 1 << 20
L3 = (4 * MB, 16.0), (8 * MB, 20.0), (12 * MB, 21.0), (16 * MB, 22.0), (24 * MB, 60.0)


def usable(*points: tuple[int, float]) -> tuple[object, object] | None:
    """Size and ways found in an L3 of 32 MiB in 16 ways, before a memory of 150 ns."""
    l3 = pagelens.machine(CHIPLETS).l3
    assert l3 is not None
    assert (l3.size.value, l3.ways.value) == (32 * MB, 16)
    found = usable_ways(l3, points, 150.0)
    return (found["size"].value, found["ways"].value) if found else None


def test_an_l3_that_a_chase_finds_whole_is_as_stated() -> None:
    assert usable(*L3) is None
    assert usable(L3[0]) is None


def test_of_an_l3_that_is_shared_out_the_ways_that_a_chase_finds_are_stated() -> None:
    # Half way from 16 to 150 ns is 83: from 16.7 to 122 ns within 4 and 8 MiB.
    assert usable((4 * MB, 16.7), (8 * MB, 122.0), (16 * MB, 145.0)) == ("6 MiB", 3)
    assert usable((4 * MB, 16.0), (8 * MB, 20.0), (16 * MB, 145.0)) == ("12 MiB", 6)
    assert usable((4 * MB, 100.0), (8 * MB, 149.0)) == ("6 MiB", 3)


def test_of_a_wrong_guess_the_cycles_count_that_the_model_does_not_have_already() -> None:
    pipeline = pagelens.machine(PIPELINE).pipeline
    assert pipeline is not None
    # Two passes take 28 cycles, of which a foreseen one takes 1, the load 5, the branch and its dispatch 2.
    found = mispredict_section(pipeline, 0.5, 7.0, 2e9)
    assert found["pipeline"]["mispredict_cycles"].value == 28 - 5 - 2 - 1
    assert mispredict_section(pipeline, 0.5, 0.5, 2e9) == {}


EIGHT = Sourced[float](value=8.0, source="a family's file")


def test_a_core_that_reaches_what_its_family_states_has_that() -> None:
    assert issue_width(EIGHT, IssueRates(7.3, 6.9)) is None
    assert issue_width(EIGHT, IssueRates(6.9, 7.3)) is None


def test_a_core_that_begins_fewer_instructions_says_that_others_may_share_it() -> None:
    found = issue_width(EIGHT, IssueRates(4.11, 3.6))
    assert found is not None
    assert found.value == 4.11
    assert "this core reaches 4.1 of 8 instructions a cycle" in found.note
    assert found.note.endswith("others may share it")


def test_of_an_unknown_family_the_rate_is_what_is_measured() -> None:
    guess = Sourced[float](value=4.0, assumed="four-wide, as most processors of its time")
    found = issue_width(guess, IssueRates(5.93, 5.1))
    assert found is not None
    assert found.value == 5.93
    assert "share" not in found.note


def test_fewer_instructions_in_a_cycle_are_told_and_kept(
    kept: Path, in_process: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the family of this machine, or if it is unknown, a file has what the probe says."""
    monkeypatch.setattr(_probes, "issue", lambda typical, repeats, cpu: np.full(repeats, 1.25 - typical / 2))
    quickly(monkeypatch)
    stated = choose_machine(None).machine.cores.instructions_per_cycle
    done = in_process("machines", "detect", "--measure")
    assert done.returncode == 0
    assert choose_machine(None).machine.cores.instructions_per_cycle.value == 1.25
    assert ("this core reaches 1.2 of" in done.stderr) == (stated.assumed is None)


def test_the_rate_of_this_machine_is_one_that_a_machine_file_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issue_rate, "_REPEATS", 50)
    rates = issue_rate.issue_rates()
    assert is_possible("instructions_per_cycle", rates.typical)
    assert is_possible("instructions_per_cycle", rates.adds_and_loads)


FULL = 3072  # entries of a Genoa's second level, in 24 ways


def test_chases_are_through_parts_of_the_largest_tlb_and_twice_as_much() -> None:
    assert chased_pages(pagelens.machine(CHIPLETS)) == [FULL // 2, FULL * 3 // 4, FULL, 2 * FULL]
    assert chased_pages(pagelens.machine(CACHE_MODE)) == [128, 192, 256, 512]


def test_a_walk_costs_what_a_chase_takes_less_on_large_pages() -> None:
    found = walk_section([(FULL, 10.0), (2 * FULL, 20.0)], 3.7e9)
    assert found["page_walk"]["walk_cycles"].value == 74
    assert walk_section([(2 * FULL, -0.4)], 3.7e9) == {}


def test_large_pages_that_need_walks_lie_on_small_pages_of_a_host() -> None:
    points = [(FULL, 4.0), (2 * FULL, 7.7)]
    found = host_section(points, on_large=14.0, in_l2=5.6)
    assert found["page_walk"]["host_page"].value == "4 KiB"
    assert host_section(points, on_large=8.0, in_l2=5.6) == {}
    assert host_section([(2 * FULL, -0.4)], on_large=14.0, in_l2=5.6) == {}


def test_a_guest_with_a_memory_side_cache_gets_no_pages_of_a_host() -> None:
    """A hypervisor can show one to its guest (QEMU: -numa hmat-cache). Both together are refused."""
    assert pagelens.machine(CACHE_MODE).bound_to_frames == ["dram", "memory_side_cache"]
    assert pagelens.machine(TWO_SOCKETS).bound_to_frames == ["numa"]


@pytest.mark.parametrize(
    ("longer", "ways"),
    [
        ((0.0, 0.0, 12.0, 24.0), None),  # as stated
        ((0.0, 1.0, 2.0, -1.0), None),  # walks cost nothing, so nothing is known
        ((0.0, 24.0, 24.0, 24.0), 15),  # half way from 1536 to 2304 pages
        ((24.0, 24.0, 24.0, 24.0), 6),
    ],
)
def test_a_tlb_that_reaches_less_far_than_stated_has_fewer_ways(
    longer: tuple[float, ...], ways: int | None
) -> None:
    machine = pagelens.machine(CHIPLETS)
    arrays = usable_arrays(machine.tlb, list(zip(chased_pages(machine), longer, strict=True)))
    assert [(array["ways"].value, array["entries"].value) for array in arrays] == (
        [] if ways is None else [(72, 72), (ways, 128 * ways)]
    )
    if arrays:  # and a machine file takes them
        text = Description("m", "m", "single", CHIPLETS, None, False, {}, arrays).to_toml()
        assert parse_machine(text.encode(), "here").tlb[1].ways.value == ways


def test_a_captured_tree_has_no_speed(pagelens_command: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [pagelens_command, "machines", "detect", "--measure", "--root", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--root" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_latencies_that_machine_files_refuse_are_named_as_disturbed() -> None:
    check_latencies({"l1": 1.0, "l2": 4.0, "l3": 20.0, "ddr": 90.0})
    with pytest.raises(Failure, match=r"90 ns in ddr and 95 ns in l3, which is nearer, so other work"):
        check_latencies({"l2": 4.0, "l3": 95.0, "ddr": 90.0})
