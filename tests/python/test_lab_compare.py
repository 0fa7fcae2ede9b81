"""`pagelens lab compare`, and what it needs in guests: Intel's rule and pages that are held."""

import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CACHE_MODE

from pagelens import _core
from pagelens.errors import Failure, UsageError
from pagelens.lab import compare
from pagelens.lab.allocator_state import Picture, add_state_module, take_picture
from pagelens.lab.compare import (
    FRESH,
    INTEL,
    OURS,
    QUICK_RATIOS,
    RATIOS,
    STATES,
    VARIANTS,
    Comparison,
    Row,
    Variant,
)
from pagelens.lab.compare_table import markdown, render_comparison, verdict_lines
from pagelens.lab.emulator import Hardware
from pagelens.lab.guest_node import GuestNode
from pagelens.lab.history import ScheduledStep, Scheduler
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.kernels import find_kernel
from pagelens.lab.measured import MeasuredGuest, MemorySide
from pagelens.lab.model_node import ModelNode
from pagelens.lab.run import Counted, ProgramRun, Request, StepDone
from pagelens.lab.validate import SHAPE_TOLERANCE, shape_distance
from pagelens.machine import load_machine

Run = Callable[..., subprocess.CompletedProcess[str]]
Lists = dict[tuple[int, int, int], list[int]]
MIB = 1 << 20


def lists(blocks: np.ndarray, zone_begins: list[int]) -> Lists:
    """The blocks of each list, by zone, order and type, head first."""
    found: Lists = defaultdict(list)
    for frame, order, kind in blocks.tolist():
        zone = int(np.searchsorted(zone_begins, frame, side="right"))
        found[zone, order, kind].append(frame)
    return found


def agreeing(found: Lists, expected: Lists) -> tuple[int, int]:
    """Blocks that both have; and of them those that follow the same one."""
    shared = same = 0
    for name, blocks in expected.items():
        both = set(blocks) & set(found[name])
        first, second = ([b for b in side if b in both] for side in (blocks, found[name]))
        shared += len(both)
        same += sum(a == b for a, b in zip(first, second, strict=True))
    return shared, same


@pytest.mark.parametrize("version", ["6.1", pytest.param("6.12", marks=pytest.mark.long)])
def test_intels_rule_in_a_guest_is_the_models_and_what_is_held_is_held(version: str) -> None:
    machine, kernel = load_machine(CACHE_MODE), find_kernel(version)
    memory_side, hardware = MemorySide(64 * MIB // 4096), Hardware(512 * MIB)
    plan = Scheduler(hardware.memory_bytes, machine.ddr.size.value, 1).read("hold(0.1%); zonesort(intel)")
    root = Initramfs()
    plan.add_to(root, kernel)
    add_state_module(root, kernel)
    with MeasuredGuest(machine, memory_side, hardware, kernel, root) as guest:
        start = take_picture(guest)
        node, model = GuestNode(guest), ModelNode(start.model(), memory_side.slots)
        for side in (node, model):
            plan.steps[0].act(side)
        held = take_picture(guest)
        plan.steps[1].act(node)
        after = take_picture(guest)
    assert shape_distance(held.blocks_by_order, model.free_blocks()) <= SHAPE_TOLERANCE
    assert in_use(held) - in_use(start) == pytest.approx(0.001 * hardware.memory_bytes / 4096, rel=0.5)

    expected = held.model()
    expected.sort_by_buckets(memory_side.slots)
    begins = [zone.begin for zone in held.layout.zones]
    found, wanted = lists(after.free, begins), lists(expected.free_blocks(), begins)
    shared, same = agreeing(found, wanted)
    assert shared > 0.9 * len(held.free)  # the shell between the two takes some
    assert same == shared
    unsorted_shared, unsorted_same = agreeing(lists(held.free, begins), wanted)
    assert unsorted_same < 0.5 * unsorted_shared  # or the test would show nothing
    largest = found[len(begins), 10, int(_core.MigrateType.movable.value)]
    assert largest != sorted(largest)  # in buckets


def in_use(picture: Picture) -> int:
    """Movable frames that something has."""
    return int((picture.use == 1).sum())


@pytest.mark.parametrize(
    "compared", [VARIANTS[3:4], pytest.param(VARIANTS, marks=pytest.mark.long)], ids=["2m", "all"]
)
def test_a_quick_comparison(
    compared: tuple[Variant, ...], pagelens: Run, examples: Path, tmp_path: Path
) -> None:
    words = ["--quick", *(word for variant in compared for word in ("--variant", variant.key))]
    words += ["--jobs", "2", "--memory", "512MiB", "--json", "--output", tmp_path / "page.md"]
    done = pagelens("lab", "compare", *words, "--", examples / "triad", "8", "1")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    rows = {(row["variant"], row["state"]): row for row in result["rows"]}
    assert len(rows) == len(compared) * len(STATES) == len(done.stderr.splitlines())
    assert {row["footprint_over_cache"] for row in rows.values()} == set(QUICK_RATIOS)
    assert result["footprint_bytes"] == pytest.approx(24 * MIB, rel=0.02)
    for (variant, state), row in rows.items():
        if state == FRESH or variant == "1 GiB pages":
            # What was held takes nearly all of so small a guest: more of the rest is the kernel's own.
            within = 0.1 if "held" in variant else 0.03
            assert row["kernel_conflict_share"] == pytest.approx(row["model_conflict_share"], abs=within)
    huge = rows["2 MiB pages", FRESH]["run"]["huge_parts"]
    assert sum(huge) == pytest.approx(24 * MIB / 4096, rel=0.01)
    assert len(huge) >= 12
    for variant in (variant.name for variant in compared if variant.pages == "4KiB"):
        intel, ours = (rows[variant, state]["kernel_conflict_share"] for state in (INTEL, OURS))
        assert ours <= intel
        assert ours < rows[variant, "aged"]["kernel_conflict_share"] / 2
    page = (tmp_path / "page.md").read_text()
    assert page.count("| aged |") == 2 * len(compared)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.md"]


def comparison(ours: float) -> Comparison:
    counted = Counted("run", {"msc_reads": 3, "msc_writes": 1, "msc_misses": 1}, [], 1.0, 2.0)
    shares = {INTEL: 0.25, OURS: ours}
    rows = [
        Row(
            VARIANTS[0],
            ratio,
            64 * MIB,
            state,
            ProgramRun(0, "", 100, [], shares.get(state, 0.5), counted, []),
            0.125,
        )
        for ratio in RATIOS
        for state in STATES
    ]
    request = Request(["./app"], load_machine(CACHE_MODE), 2 << 30, 0)
    return Comparison(request, 3, "6.1.0", 100 * 4096, rows)


def test_the_tables_say_what_was_found() -> None:
    text = render_comparison(comparison(0.25))
    assert max(map(len, text.splitlines())) <= 80
    assert "  ... and Intel's rule           25.0 / 12.5 25.0 / 12.5" in text
    assert "  fresh                                 75.0" in text
    assert "| ... and zonesort | 25.0 / 12.5 | 25.0 / 12.5 |" in markdown(comparison(0.25))


def test_the_page_says_how_to_make_it_again() -> None:
    ratios = " ".join(f"--ratio {ratio:g}" for ratio in RATIOS)
    options = f"--memory 2048MiB --jobs 3 --kernel 6.1 --machine {CACHE_MODE} --seed 1 --limit 3600"
    command = f"pagelens lab compare {options} {ratios} --variant 4k -- ./app"
    page = markdown(comparison(0.25))
    assert command in " ".join(page.replace("\\\n", " ").split())
    assert max(map(len, page.splitlines())) <= 100


def test_the_verdict_names_the_rows_where_zonesort_is_above_intels_rule() -> None:
    kernel, model = verdict_lines(comparison(0.25))
    assert kernel.endswith("kernel: 4 of 4 rows.")
    assert model.endswith("model: 4 of 4 rows.")
    kernel, *above, model = verdict_lines(comparison(0.26))
    assert kernel.endswith("kernel: 0 of 4 rows.")
    assert above[2] == "Above it: 4 KiB pages, footprint/cache 1: 26.00%, not 25.00%."


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--quick", "--ratio", "0.5", "--", "/bin/true"], 2, "--quick: is --ratio 1"),
        (["--variant", "2M", "--", "/bin/true"], 2, "--variant: '2M' is unknown; did you mean 2m"),
        (["--memory", "512MiB", "--", "./nothing"], 2, "no such file"),
        (["--output", "/nowhere/page.md", "--", "/bin/true"], 2, "/nowhere is no directory"),
    ],
)
def test_bad_input_is_one_line(in_process: Run, words: list[str], code: int, message: str) -> None:
    done = in_process("lab", "compare", *words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_too_small_for_any_cache_is_told() -> None:
    request = Request(["./app"], load_machine(CACHE_MODE), 2 << 30, 0)
    assert compare._cell(request, VARIANTS[0], 1.1, 20 * MIB, 3).cache_bytes == 20 * MIB
    with pytest.raises(
        UsageError, match=r"it takes 4 MiB; with --memory 2048MiB and --ratio 1.1 .* 21 MiB or more"
    ):
        compare._cell(request, VARIANTS[0], 1.1, 4 * MIB, 3)


def test_a_program_that_fails_in_the_guest_is_told() -> None:
    request = Request(["./app"], load_machine(CACHE_MODE), 2 << 30, 0)
    run = comparison(0.25).rows[0].run
    compare._require_success(run, request)
    with pytest.raises(Failure, match=r"\./app ended with status 3 in the guest: out of luck"):
        compare._require_success(replace(run, status=3, output="tried\nout of luck\n"), request)
    with pytest.raises(Failure, match="held no memory"):
        compare._require_success(replace(run, resident_pages=0), request)


def test_a_program_whose_arrays_are_not_on_large_pages_is_told() -> None:
    request = Request(["./app"], load_machine(CACHE_MODE), 2 << 30, 0, pages="2MiB")
    run = replace(comparison(0.25).rows[0].run, resident_pages=1000, huge_parts=[499, 1])
    compare._require_large_pages(run, request)
    with pytest.raises(Failure, match=r"took 2 of its 1000 pages .* of 2MiB .* come from malloc"):
        compare._require_large_pages(replace(run, huge_parts=[2]), request)
    with pytest.raises(Failure, match="took none of its 1000"):
        compare._require_large_pages(replace(run, huge_parts=[]), request)
    compare._require_large_pages(replace(run, huge_parts=[]), replace(request, pages="4KiB"))


def test_a_program_without_large_pages_is_refused_before_any_guest_that_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The guest that measures the program's footprint finds it out."""
    booted: list[Request] = []
    run = replace(comparison(0.25).rows[0].run, resident_pages=100_000, huge_parts=[])

    class Lab:
        def __init__(self, request: Request) -> None:
            booted.append(request)
            self.schedule = Scheduler(request.memory_bytes, 96 << 30, 1).read(request.history)

        def __enter__(self) -> "Lab":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def step(self, step: ScheduledStep) -> StepDone:
            return StepDone(step.text, {}, run)

    monkeypatch.setattr(compare, "ProgramLab", Lab)
    request = Request(["./app"], load_machine(CACHE_MODE), 2 << 30, 0)
    with pytest.raises(Failure, match=r"\./app took none of its 100000 pages of memory from pages of 2MiB"):
        compare.compare_states(request, RATIOS, 3, lambda row: None)
    assert [request.history for request in booted] == ["run"]


def test_ctrl_c_ends_all_guests_and_leaves_the_page_as_it_was(
    pagelens_command: Path, examples: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before")
    words = [
        "--quick",
        "--jobs",
        "1",
        "--memory",
        "512MiB",
        "--output",
        page,
        "--",
        examples / "triad",
        "8",
        "1",
    ]
    process = subprocess.Popen(
        [pagelens_command, "lab", "compare", *words], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    emulators = children(process.pid)
    while len(emulators) < min(
        2, len(os.sched_getaffinity(0))
    ):  # from threads, after the one that measures the program
        assert process.poll() is None
        time.sleep(0.05)
        emulators = children(process.pid)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1].splitlines()
    assert process.returncode == 130
    assert said[-1] == "pagelens: lab: interrupted; the guests are gone"
    assert page.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]
    for emulator in emulators:
        for _ in range(600):  # the kernel takes a killed one's memory down in its own time
            if not Path(f"/proc/{emulator}/stat").exists():
                break
            time.sleep(0.1)
        else:
            pytest.fail("an emulator lives on")


def children(pid: int) -> list[int]:
    """Emulators that any thread of a process started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread, or what it started, is gone
            started = map(int, (task / "children").read_text().split())
            found += [child for child in started if "qemu" in Path(f"/proc/{child}/cmdline").read_text()]
    return found
