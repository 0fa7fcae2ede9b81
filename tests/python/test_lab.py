"""`pagelens lab`: a program's runs in a guest with a history, and the model beside the real allocator."""

import json
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from machine_roles import FLAT_MODE

from pagelens import _core
from pagelens.errors import UsageError
from pagelens.host.zone_layout import read_layout
from pagelens.lab.history import Scheduler
from pagelens.lab.jobs import hold_work
from pagelens.lab.measured import MemorySide, frames_and_parts
from pagelens.lab.memory_work import ModelProcess, Work, batches
from pagelens.lab.model_node import ModelNode
from pagelens.lab.validate import DEFAULT_HISTORIES, TOLERANCE, shape_distance

Run = Callable[..., subprocess.CompletedProcess[str]]
MIB = 1 << 20


def test_runs_are_counted_and_zonesort_ends_their_conflicts(pagelens: Run, examples: Path) -> None:
    history = "job(151MB); run; zonesort; run"
    words = ["--memory", "512MiB", "--cache", "64MiB", "--history", history, "--json"]
    done = pagelens("lab", "run", *words, "--", examples / "triad", "8", "3")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("0 wrong elements: ok") == 2
    result = json.loads(done.stdout)
    assert [step["text"] for step in result["steps"]] == [part.strip() for part in history.split(";")]
    aged, ordered = (step["run"] for step in result["steps"] if step["run"])
    assert aged["conflict_share"] > 0.02
    assert ordered["conflict_share"] < 0.005
    lines = 8 * MIB // 64
    for run in (aged, ordered):
        assert run["resident_pages"] == pytest.approx(3 * 2048, rel=0.05)
        assert [region["name"] for region in run["regions"]] == ["initialise", "triad"]
        triad = run["regions"][1]["counts"]
        # Three arrays, three times, none of which L2 can hold: b and c are read, a is read and written.
        assert triad["l2_misses"] == pytest.approx(3 * 3 * lines, rel=0.02)
        assert triad["l2_write_backs"] == pytest.approx(3 * lines, rel=0.05)
        # A load of b and of c, a store of a for each element, and what the loop keeps in registers.
        assert triad["accesses"] == pytest.approx(3 * 3 * 8 * MIB / 8, rel=0.05)
        assert triad["msc_reads"] == triad["l2_misses"]
        assert run["total"]["time_s"] > 0
    hit = 1 - ordered["regions"][1]["counts"]["msc_misses"] / ordered["regions"][1]["counts"]["msc_reads"]
    assert hit > 0.99
    assert aged["regions"][1]["counts"]["msc_misses"] > 10 * ordered["regions"][1]["counts"]["msc_misses"]
    zones = result["steps"][-1]["buddyinfo"]
    assert sum(zones["node 0 DMA32"]) > 0


SOME_HISTORIES = ("io(302MB); job(402MB)",)


@pytest.mark.parametrize(
    "histories",
    [SOME_HISTORIES, pytest.param(DEFAULT_HISTORIES, marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_the_model_does_what_the_kernel_does(histories: Sequence[str], pagelens: Run) -> None:
    named = () if histories == DEFAULT_HISTORIES else (w for text in histories for w in ("--history", text))
    done = pagelens("lab", "validate", "--json", *named)
    rows = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    ends: dict[str, float] = {}
    gaps: dict[str, float] = defaultdict(float)
    for row in rows:
        ends[row["history"]] = row["guest_share"]
        gaps[row["history"]] = max(gaps[row["history"]], abs(row["guest_share"] - row["random_share"]))
    assert list(ends) == list(histories)
    assert sum(0.10 <= share <= 0.45 for share in ends.values()) >= len(histories) / 2
    # Independent random frames fail the comparison that the model stands.
    assert sum(gap > TOLERANCE for gap in gaps.values()) == len(gaps)


@pytest.mark.long
def test_the_model_does_what_the_kernel_does_beside_a_hole_in_memory(pagelens: Run) -> None:
    """Pages that stay let compaction make the rest whole, so that both sort the same lists."""
    history = "hold(0.1%); age(jobs=2); drop_caches; compact; zonesort(intel)"
    done = pagelens("lab", "validate", "--hole", "256MiB", "--json", "--history", history)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout)[-1]
    assert abs(last["guest_share"] - last["model_share"]) < 0.01
    assert abs(last["guest_share"] - last["random_share"]) > TOLERANCE


@pytest.mark.long
def test_pinned_pages_stay_in_the_kernel_as_in_the_model(pagelens: Run) -> None:
    """Zonesort moves pages that are held, but not pinned ones, so that it gains less."""
    shares: dict[str, float] = {}
    for pinned in ("off", "on"):
        history = f"hold(32, pinned={pinned}); age(jobs=2); drop_caches; zonesort"
        done = pagelens("lab", "validate", "--json", "--history", history)
        assert done.returncode == 0, done.stderr
        last = json.loads(done.stdout)[-1]
        assert abs(last["guest_share"] - last["model_share"]) < 0.02
        assert abs(last["guest_share"] - last["random_share"]) > TOLERANCE
        shares[pinned] = last["guest_share"]
    assert shares["on"] > 2 * shares["off"]


@pytest.mark.parametrize("hole", ["6MiB", "1028MiB"])
def test_a_hole_is_part_of_the_memory(hole: str, in_process: Run) -> None:
    done = in_process("lab", "validate", "--hole", hole)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"--hole {hole}: from 0MiB to 1024MiB" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cache", "3MiB"], "--cache 3MiB: a multiple of 4 MiB"),
        (["--cache", "4MiB"], "too small for this memory"),
        (["--pages", "3MiB"], "--pages 3MiB: one of 4KiB, thp, 2MiB, 1GiB"),
        (["--machine", FLAT_MODE], "no memory-side cache; choose one in cache mode, or --cache 0B"),
        (["--history", "age; run"], "has to say how many jobs"),
        (["--history", "shuffle; run"], "boot(shuffle=on)"),
        (["--history", "boot(kernel=4.4); run"], "a lab boots that of --kernel; leave it out"),
        (["--history", "frobnicate"], "unknown"),
        (["--kernel", "nothing"], "no file and no version"),
        (["--memory", "2GB"], "a multiple of 2 MiB"),
    ],
)
def test_bad_input_is_one_line(in_process: Run, words: list[str], message: str) -> None:
    done = in_process("lab", "run", *words, "--", "/bin/true")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_step_that_only_guests_do_is_not_compared(in_process: Run) -> None:
    done = in_process("lab", "validate", "--history", "job(10MB); offline(64MiB)")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "'offline(64MiB)' runs in guests only; validate has no such step" in done.stderr


def test_a_program_that_is_none_is_told(in_process: Run) -> None:
    done = in_process("lab", "run", "--", "./nothing")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "no such file" in done.stderr


def test_conflicts_are_pages_that_share_a_slot_of_their_nodes_cache() -> None:
    side = MemorySide(slots=8)
    assert side.conflicts(np.array([0, 1, 2, 8])) == 2
    assert side.conflicts(np.array([0, 1, 2, 8]), [0, 8]) == 0
    assert side.conflicts(np.array([0, 8, 16, 17])) == 3


def test_only_what_the_kernel_calls_large_and_the_program_holds_whole_is_a_large_page() -> None:
    used, held, large = np.zeros((3, 2048), dtype=bool)
    used[:1100], held[:1535] = True, True  # the third 2 MiB but for their last frame
    large[[512, 1024]] = True  # the first are of small pages
    data = b"".join(np.packbits(row, bitorder="little").tobytes() for row in (used, held, large))
    frames, parts = frames_and_parts(data, 2048)
    assert (frames.tolist(), parts.tolist()) == (list(range(1100)), [512])
    frames, parts = frames_and_parts(b"", 2048)  # of a program that did not begin
    assert (frames.size, parts.size) == (0, 0)


def test_free_blocks_of_other_sizes_are_told_and_few_moved_pages_are_not() -> None:
    whole, split = np.zeros(11, np.int64), np.zeros(11, np.int64)
    whole[10] = split[10] = 100
    assert shape_distance(whole, split) == 0
    split[10], split[0] = 99, 1024
    assert 0.005 < shape_distance(whole, split) < 0.05
    split[10], split[5] = 50, 50 * 32
    assert shape_distance(whole, split) == pytest.approx(0.5, abs=0.01)


def test_histories_are_the_same_for_guest_and_model_and_for_the_same_seed() -> None:
    plans = [Scheduler(1 << 30, 96 << 30, seed).read("age(jobs=2); compact; job(10MB)") for seed in (1, 1, 2)]
    first, again, other = ({name: steps.tobytes() for name, steps in plan.work.items()} for plan in plans)
    assert first == again != other
    with pytest.raises(UsageError, match="can only be the first"):
        Scheduler(1 << 30, 96 << 30, 1).read("run; boot")


def test_a_process_of_the_model_gives_back_all_it_took() -> None:
    memory = _core.Memory(_core.linux_layout(1 << 16, 1, 1), 1)
    before = memory.free_frames + memory.cached_frames
    work = Work()
    work.take(0, 0, 1000)
    work.take(1, 0, 300)
    work.look()
    work.drop(0, 10, 500)
    work.leave(1)
    process = ModelProcess(memory)
    seen = process.do(work.steps)
    assert len(set(seen.tolist())) == 1300
    assert process.frames().size == 500
    process.end()
    assert memory.free_frames + memory.cached_frames == before


def test_the_shell_that_compacts_moves_with_the_rest_and_its_end_empties_the_per_cpu_lists() -> None:
    memory = _core.Memory(_core.linux_layout(1 << 16, 1, 1), 1)
    node = ModelNode(memory, slots=1024)
    node.hold("", hold_work(40_000 * 4096, range(0, 40_000, 8)).steps)
    free = memory.free_frames + memory.cached_frames
    node.compact()
    assert memory.cached_frames == 0
    assert memory.free_frames == free
    blocks = memory.free_blocks()
    frames = np.concatenate([np.arange(frame, frame + (1 << order)) for frame, order, _ in blocks.tolist()])
    assert np.unique(frames).size == frames.size == free


def test_an_unmapping_frees_all_pages_in_batches() -> None:
    parts = list(batches(11_000))
    assert [part.start for part in parts[:3]] == [0, 8, 518]
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert parts[-1].stop == 11_000
    assert list(batches(0)) == []


ZONEINFO = """\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 1
  pages free     100
        boost    0
        min      15
        low      18
        high     21
        spanned  4095
        present  3998
        protection: (0, 927, 927, 930, 927)
  pagesets
    cpu: 0
              count: 0
              high:  18
              batch: 1
  start_pfn:           1
Node 0, zone   Normal
  pages free     0
        spanned  0
        present  0
  start_pfn: 0
"""


def test_zoneinfo_says_the_layout() -> None:
    layout = read_layout(ZONEINFO)
    (zone,) = layout.zones
    assert (zone.begin, zone.end, zone.low, zone.protection) == (0, 4096, 18, 930)
    assert (zone.pcp_high, zone.pcp_batch, list(layout.cpu_numa)) == (18, 1, [0])
