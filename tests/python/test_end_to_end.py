"""Each example is traced, undisturbed by it, and explained: from the program to the report."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE

Run = Callable[..., subprocess.CompletedProcess[str]]

# What the long ones show is shown by others, too: threads, and regions of a program in C++.
# The program, its arguments, a phase it marks, and a call site that must be among its objects.
EXAMPLES = [
    ("triad", ["2", "2"], "triad", "array (triad.c"),
    pytest.param("triad-omp", ["2", "2"], "triad", "array (triad.c", marks=pytest.mark.long),
    ("cg", ["12"], "solve", "generate (cg.cpp"),
    ("fe", ["16"], "assembly", "structure (fe.cpp"),
    pytest.param("hydro", ["10", "3"], "steps", "advance (hydro.cpp", marks=pytest.mark.long),
    ("heat", ["200", "3"], "steps", "MAIN__ (heat.f90"),
]


@pytest.mark.parametrize(("name", "arguments", "phase", "site"), EXAMPLES)
def test_an_example_is_explained(
    name: str, arguments: list[str], phase: str, site: str, examples: Path, pagelens: Run, tmp_path: Path
) -> None:
    if name == "heat" and not shutil.which("gfortran"):
        pytest.skip("no Fortran compiler")
    program = [str(examples / name), *arguments]
    alone = subprocess.run(program, capture_output=True, text=True, check=True)
    traced = pagelens("trace", "-o", "app.trace", "--", *program)
    assert (traced.returncode, traced.stdout) == (0, alone.stdout)

    options = ["--machine", CACHE_MODE, "--nodes", "2", "--policies", "aged,contiguous"]
    explained = pagelens("explain", "app.trace", *options, "--phase", phase, "-o", "out", "--json")
    assert explained.returncode == 0, explained.stderr
    found = json.loads(explained.stdout)
    assert [d["policy"] for d in found["distributions"]] == ["aged", "contiguous"]
    assert all(len(d["times_s"]) == 2 and min(d["times_s"]) > 0 for d in found["distributions"])
    assert any(site in o["name"] for o in found["objects"])

    report = (tmp_path / "out" / "report.html").read_text()
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", report)  # whole without a network
    assert not list(tmp_path.glob("**/*.partial"))
