"""Larger buffers of stdio by `pagelens io run --buffer`: programs and files are as without them."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from run_library import PROGRAMS, build

from pagelens.io.apply import Advice

Run = Callable[..., subprocess.CompletedProcess[str]]

BUFFERS = Advice(None, buffer=256 << 10)
WAYS = (
    "plain", "exits", "appends", "updates", "killed", "forks", "own_buffers", "reopens", "many", "meanwhile",
    "threads", "wide", "mapped", "limited", "to_stdout",
)  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(
        PROGRAMS / "io_streams.c", tmp_path_factory.mktemp("program") / "io_streams", "-w", "-pthread"
    )


def run(program: Path, folder: Path, way: str, applied: bool) -> tuple[int, str]:
    """Return the status, and what the program sees. Its output is a file, too."""
    folder.mkdir(exist_ok=True)
    environment = BUFFERS.environment(os.environ) if applied else dict(os.environ)
    with (folder / "output").open("wb") as output:
        done = subprocess.run(
            [program, folder, way], env=environment, stdout=output, stderr=subprocess.PIPE, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_a_program_sees_and_leaves_the_same(way: str, program: Path, tmp_path: Path) -> None:
    plain, larger = tmp_path / "plain", tmp_path / "larger"
    assert run(program, larger, way, applied=True) == run(program, plain, way, applied=False)
    found = {path.name: path.read_bytes() for path in larger.iterdir()}
    assert found == {path.name: path.read_bytes() for path in plain.iterdir()}
    assert any(found.values()) or way == "threads"


def test_fewer_writes_are_made(program: Path, tmp_path: Path) -> None:
    """Some 550 KB are written 256 KiB or 4 KiB at a time."""
    counts = [int(run(program, tmp_path, "calls", applied)[1].split()[1]) for applied in (False, True)]
    assert counts[0] > 100
    assert counts[1] <= 3


def test_output_beside_errors_in_one_file_stays_as_it_is(program: Path, tmp_path: Path) -> None:
    """Who prints to both counts on their order as it is."""
    words = ["sh", "-c", f"{program} {tmp_path} to_stdout >{tmp_path}/told 2>&1"]
    told = []
    for environment in (dict(os.environ), BUFFERS.environment(os.environ)):
        subprocess.run(words, env=environment, check=True)
        told.append((tmp_path / "told").read_bytes())
    assert told[0] == told[1]


def test_sizes_of_buffers_have_limits(pagelens: Run) -> None:
    for bad in ("1KiB", "1GiB"):
        done = pagelens("io", "run", "--apply", "hints", "--buffer", bad, "--", "true")
        assert (done.returncode, "8 KiB to 64 MiB" in done.stderr) == (2, True)
