"""A GPU as a machine of two memories: what plans for it, and what has nothing to say of it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machine_roles import GPU

Run = Callable[..., subprocess.CompletedProcess[str]]

SLOWER = (
    f"""schema = 1
base = "{GPU}"
"""
    """\
name = "mine"
title = "another GPU"
mode = "flat"
[ddr]
bandwidth = { value = "17.5 GB/s", source = "measured by pagelens measure tiers" }
write_bandwidth = { value = "17.5 GB/s", source = "by hand" }
"""
)


@pytest.mark.parametrize(
    ("machine", "least", "most"), [(GPU, 4150 / 53, 4150 / 35), ("mine.toml", 4150 / 17.6, 4150 / 17.4)]
)
def test_loops_are_placed_and_the_plan_is_called_advice(
    machine: str, least: float, most: float, in_process: Run, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(SLOWER)
    loops = ["--workload", "stream-triad", "--size", "600MB", "--capacity", "50%"]
    done = in_process("place", "--machine", machine, *loops, "-o", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    said = " ".join(done.stdout.split())
    assert "with cudaMalloc and the rest with cudaMallocHost: `pagelens run --plan` places what" in said
    placed = json.loads((tmp_path / "out" / "place.json").read_text())
    rows = {row["policy"]: row for row in placed["policies"]}
    # Memory decides throughout: the times are its bandwidths', of reads and of writes.
    assert least < rows["all-fast"]["speedup"] < most
    assert 1.9 < rows["optimum"]["speedup"] < 2.2  # half lies in fast memory, what is read before the rest


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "--workload", "stream-triad", "--size", "1GB"],
        ["explain", "x.trace"],
        ["audit"],
        ["measure", "stream"],
        ["run", "--stagger"],
        ["run", "--frames", "best"],
        ["trace-export", "x.trace", "--output", "x.txt", "--format", "ramulator"],
    ],
)
def test_what_is_about_linux_s_frames_refuses_a_gpu(words: list[str], in_process: Run) -> None:
    program = ["--", "true"] if words[0] == "run" else []
    done = in_process(*words, "--machine", GPU, *program)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{GPU} is a GPU, whose driver places its pages, not Linux" in done.stderr
    assert "`pagelens place`" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_gpu_is_shown_as_one(in_process: Run) -> None:
    done = in_process("machines", "show", GPU)
    assert "A GPU: its pages are its driver's." in done.stdout
