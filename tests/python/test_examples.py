"""The example programs check their own answers; here they run at several sizes, without the tracer."""

import shutil
import subprocess
from pathlib import Path

import pytest

RUNS = [
    *(("triad", arguments) for arguments in (["1", "1"], ["3", "7"])),
    *(("triad-omp", arguments) for arguments in (["1", "1"], ["3", "7"], ["2", "1", "1"])),
    *(("stream", arguments) for arguments in (["1"], ["12"])),
    *(("cg", arguments) for arguments in (["1"], ["2"], ["17"], ["12", "3"])),
    ("cg-omp", ["17"]),
    ("fe-omp", ["13"]),
    *(("fe", arguments) for arguments in (["1"], ["2"], ["13"], ["13", "3"])),
    *(("gups", arguments) for arguments in (["1", "1"], ["10"], ["16", "1"], ["16", "2", "10"])),
    *(("sum", arguments) for arguments in (["1", "1"], ["1001", "3"], [])),
    *(("shallow", arguments) for arguments in (["1", "1"], ["2", "10"], ["33", "333"], ["12", "9000"])),
    *(("fft", arguments) for arguments in (["1", "1"], ["2", "3"], ["9", "2"], ["10", "40"])),
    *(("dgemm", arguments) for arguments in (["1", "1", "1"], ["3", "17", "5"], ["3", "17", "5", "100"])),
    *(("stencil", arguments) for arguments in (["1", "1", "1"], ["2", "7", "3"], ["3", "8", "40"])),
    *(("hydro", arguments) for arguments in (["1", "1"], ["7", "60"], ["15", "150"])),
    *(("heat", arguments) for arguments in (["1", "1"], ["50", "100"])),
]


def run(examples: Path, name: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    if name == "heat" and not shutil.which("gfortran"):
        pytest.skip("no Fortran compiler")
    return subprocess.run([examples / name, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("name", "arguments"), RUNS)
def test_the_answer_is_right(examples: Path, name: str, arguments: list[str]) -> None:
    result = run(examples, name, arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith(f"{name.removesuffix('-omp')}: ")
    assert result.stdout.rstrip().endswith(": ok")
    if name == "hydro" and arguments != ["1", "1"]:
        assert "shock at" in result.stdout  # and where it should be


@pytest.mark.parametrize(
    "name",
    ["triad", "stream", "cg", "fe", "hydro", "gups", "stencil", "sum", "shallow", "fft", "dgemm", "heat"],
)
@pytest.mark.parametrize("argument", ["0", "-3", "big", "9999999"])
def test_a_wrong_size_is_refused(examples: Path, name: str, argument: str) -> None:
    result = run(examples, name, [argument])
    assert result.returncode == 2
    assert argument in result.stderr + result.stdout
