"""The ranks of a job, placed on two memories: a plan for each."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from machine_roles import FLAT_BEHIND_L3
from traced_program import traced_c

from pagelens.place import read_plan

MIB = 1 << 20
Run = Callable[..., CompletedProcess[str]]

# A rank with two arrays, of which it reads one again and again.
RANK = """
#include <stdlib.h>
enum {{ LINES = 1 << 17 }};
static double* volatile kept[2];
static double read_often(const double* array) {{
    double sum = 0;
    for (int sweep = 0; sweep < 3; ++sweep)
        for (int line = 0; line < LINES; ++line) sum += array[8 * line];
    return sum;
}}
int main(void) {{
    kept[0] = calloc(LINES, 64);
    kept[1] = calloc(LINES, 64);
    for (int i = 0; i < 2; ++i)
        for (int line = 0; line < LINES; ++line) kept[i][8 * line] = 1;
    return read_often(kept[{hot}]) < 0;
}}
"""


def test_each_rank_of_a_job_is_placed_by_its_own_objects(tmp_path: Path, pagelens: Run) -> None:
    paths = []
    for rank in range(2):
        (folder := tmp_path / f"rank-{rank}").mkdir()
        paths.append(traced_c(folder, RANK.format(hot=rank)))
    words = ("--machine", FLAT_BEHIND_L3, "--capacity", "50%", "--ranks", "56", "-o", tmp_path / "out")
    done = pagelens("place", *paths, *words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [report["ranks"] for report in found] == [56, 56]
    for rank, report in enumerate(found):
        assert report["plan"] == str(tmp_path / f"out/rank-{rank}/plan.toml")
        arrays = sorted(
            (each for each in report["objects"] if each["bytes"] > 7 * MIB), key=lambda each: each["name"]
        )
        assert [round(each["fast_share"]) for each in arrays] == [rank == 0, rank == 1]
        assert read_plan(Path(report["plan"])).objects


def test_a_plan_of_each_rank_needs_a_rank(pagelens: Run) -> None:
    refused = pagelens("run", "--plan", "rank-%r/plan.toml", "--", "true")
    assert refused.returncode == 2
    assert "--plan rank-%r/plan.toml: %r is the MPI rank, but there is none" in refused.stderr
