"""Physical lines of a workload on a placement, and `pagelens trace-export`, which writes them as text."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from machine_roles import FLAT_MODE
from traced_program import GOLDEN

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.accesses.trace import open_trace
from pagelens.accesses.workload import Workload
from pagelens.errors import UsageError
from pagelens.frames import Node, policies
from pagelens.machine import load_machine
from pagelens.machine.dram_files import load_dram
from pagelens.replay.memory_side import by_phase, hierarchy
from pagelens.replay.physical_trace import WRITE, physical_lines

FLAT = load_machine(FLAT_MODE)
Run = Callable[..., subprocess.CompletedProcess[str]]


def lines_of(workload: Workload, policy: str) -> np.ndarray:
    return np.concatenate(list(physical_lines(workload, FLAT, policies[policy], Node(FLAT, 1, 0))))


@pytest.mark.parametrize("policy", ["contiguous", "random", "2m"])
@pytest.mark.parametrize("workload", ["golden", "stream-triad", "cg"])
def test_as_many_are_read_and_written_as_a_replay_counts(workload: str, policy: str) -> None:
    program = open_trace(GOLDEN) if workload == "golden" else declared(workload, 13_000_000, 1)
    chosen, node = policies[policy], Node(FLAT, 1, 0)
    lines = lines_of(program, policy)
    counters = _core.replay(
        program.compile(FLAT, 12),  # so that the L2 is replayed on the frames
        chosen.place(FLAT, node),
        hierarchy(FLAT, 12),
        ranks=1,
        sampling=_core.Sampling(),
        scaled=False,
        two_way=False,
        ideal=False,
        map_bins=1,
        seed=1,
        node=0,
        cancel=_core.CancelFlag(),
    )
    counts = by_phase(counters)
    written = (lines & WRITE) != 0
    assert int(written.sum()) == counts["msc_writes"].sum()
    assert int((~written).sum()) == counts["msc_reads"].sum()
    assert np.all(lines % np.uint64(64) == 0)


def test_frames_are_those_of_the_policy() -> None:
    workload = open_trace(GOLDEN)
    pages = workload.footprint_bytes // 4096
    contiguous = np.unique((lines_of(workload, "contiguous") & ~WRITE) // np.uint64(4096)).astype(np.int64)
    by_address = workload.compile(FLAT, 12).pages.astype(np.int64)
    assert contiguous[0] == 0
    assert len(contiguous) == len(by_address)
    np.testing.assert_array_equal((contiguous - by_address + by_address[0]) % 512, 0)
    assert contiguous[-1] <= 512  # of the 131 TiB before the last page
    random = np.unique((lines_of(workload, "random") & ~WRITE) // np.uint64(4096))
    assert pages <= len(random) < 2 * pages  # some come back and are drawn anew
    assert random.max() > 1_000_000


def test_a_dram_takes_them() -> None:
    lines = lines_of(open_trace(GOLDEN), "contiguous")
    counts = load_dram("ddr4-2400").dram.simulator(outstanding=10).run(lines)
    assert counts.total("reads") + counts.total("writes") == len(lines)


def test_a_job_larger_than_the_node_is_refused() -> None:
    size = FLAT.ddr.size.model_copy(update={"value": 8 << 20})
    small = FLAT.model_copy(update={"ddr": FLAT.ddr.model_copy(update={"size": size})})
    workload = declared("stream-triad", 13_000_000, 1)
    with pytest.raises(UsageError, match=f"stream-triad on {FLAT_MODE}: the job needs more memory"):
        for _ in physical_lines(workload, small, policies["contiguous"], Node(small, 1, 0)):
            pass


@pytest.mark.parametrize(
    ("form", "read", "write"),
    [("dramsim3", "{:#x} READ 0", "{:#x} WRITE 0"), ("ramulator", "LD {:#x}", "ST {:#x}")],
)
def test_the_text_says_the_same(pagelens: Run, tmp_path: Path, form: str, read: str, write: str) -> None:
    target = tmp_path / "out.txt"
    result = pagelens("trace-export", GOLDEN, "--format", form, "-o", target)
    assert result.returncode == 0
    expected = [
        (write if line & WRITE else read).format(int(line & ~WRITE))
        for line in lines_of(open_trace(GOLDEN), "contiguous")
    ]
    assert target.read_text().splitlines() == expected
    assert f"wrote {target}" in result.stderr
    few = pagelens("trace-export", GOLDEN, "--format", form, "--lines", "70", "-o", target)
    assert few.returncode == 0
    assert target.read_text().splitlines() == expected[:70]


def test_what_cannot_be_done_is_one_line_and_leaves_nothing(pagelens: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    wrong = pagelens("trace-export", GOLDEN, "--policy", "randon", "-o", target)
    assert wrong.returncode == 2
    assert "--policy: 'randon' is unknown; did you mean random" in wrong.stderr
    wrong = pagelens("trace-export", GOLDEN, "--format", "drams", "-o", target)
    assert wrong.returncode == 2
    wrong = pagelens("trace-export", GOLDEN, "-o", tmp_path / "none" / "out.txt")
    assert wrong.returncode == 1
    assert "--output: cannot write" in wrong.stderr
    assert wrong.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
