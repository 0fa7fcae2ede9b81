"""Results stay the same when the code is rearranged: the demo's program and a machine of each kind.

tests/data/results/NAME.json holds what a command printed when the file was made. Numbers are compared to
ten digits, because processors differ in how they sum; names and sentences are free to change. A change of
the model renews the files: PAGELENS_RENEW=1 pytest tests/python/test_same_results.py.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from machine_roles import (
    CACHE_BEHIND_L3,
    CACHE_MODE,
    CACHED_OPTANE,
    FLAT_BEHIND_L3,
    FLAT_MODE,
    HYBRID_MODE,
    NO_L3,
    PUBLISHED_KNL,
    SNOOP_FILTER,
    TWO_SOCKETS,
)

Run = Callable[..., subprocess.CompletedProcess[str]]

FOLDER = Path(__file__).parents[1] / "data" / "results"
TRACE = str(FOLDER / "cg.bin")  # examples/cg 12 2, traced without its executable: sites have no names
DIGITS = 10

EXPLAINED = {
    "cache": f"{TRACE} --machine {CACHE_MODE} --nodes 3 --policies aged,aged+zonesort,2m --phase solve",
    "cache-behind-l3": f"{TRACE} --machine {CACHE_BEHIND_L3} --nodes 2 --policies aged,2m",
    "cache-shrunk": f"{TRACE} --machine {CACHE_MODE} --full-size 8GB --nodes 2 --policies aged,random",
    "cache-ideal": f"--workload stream-triad --size 1GB --machine {CACHE_MODE}-ideal"
    " --nodes 1 --policies aged",
    "cache-declared": f"--machine {PUBLISHED_KNL} --workload cg --size 1GB"
    " --nodes 1 --policies aged,contiguous",
    "hybrid": f"{TRACE} --machine {HYBRID_MODE} --nodes 2 --policies aged,aged+zonesort",
    "flat": f"{TRACE} --machine {FLAT_MODE} --nodes 2 --policies aged,contiguous,coloured --ranks 8",
    "single": f"{TRACE} --machine {SNOOP_FILTER} --nodes 2 --ranks 4 --policies aged,2m",
    "no-l3": f"{TRACE} --machine {NO_L3} --nodes 2 --policies contiguous,random",
    "numa": f"{TRACE} --machine {TWO_SOCKETS} --nodes 1 --ranks 8 --policies aged,interleave"
    " --history boot;io(103GB,numa=0);run",
    "optane": f"{TRACE} --machine {CACHED_OPTANE} --nodes 2 --policies random,contiguous",
}  # fmt: skip
PLACED = {"placed": f"{TRACE} --machine {FLAT_BEHIND_L3} --capacity 50%"}


@pytest.mark.parametrize("name", [*EXPLAINED, *PLACED])
def test_results_are_those_of_before(name: str, tmp_path: Path, pagelens: Run) -> None:
    options = ["place", *PLACED[name].split()] if name in PLACED else ["explain", *EXPLAINED[name].split()]
    words = [*options, "--json", "-o", str(tmp_path / "out")]
    found = dict(numbers(json.loads(pagelens(*words).stdout)))
    kept = FOLDER / f"{name}.json"
    if os.environ.get("PAGELENS_RENEW"):
        kept.write_text(json.dumps(found, separators=(",", ":"), indent=0) + "\n")
    assert found == json.loads(kept.read_text())


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every number of a JSON value with its place; lists of numbers together."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != "sample":  # seeds, versions and the command line
                yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, list) and not all(isinstance(inner, int | float) for inner in value):
        for index, inner in enumerate(value):
            yield from numbers(inner, f"{path}.{index}")
    elif isinstance(value, list):
        yield path, " ".join(f"{inner:.{DIGITS}g}" for inner in value)
    elif isinstance(value, int | float):
        yield path, f"{value:.{DIGITS}g}"
