"""The readers of machines/ survive any bytes: a short run, and a million inputs in `make test-long`."""

import importlib.util
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[1] / "fuzz" / "machine_files.py"


def run(seed: int, count: int) -> int:
    spec = importlib.util.spec_from_file_location("machine_files", _PATH)
    assert spec is not None
    assert spec.loader is not None
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    return int(fuzz.run(seed, count))


def test_mutated_machine_files_give_what_they_state_or_one_line() -> None:
    accepted = run(seed=1, count=3000)
    assert 0 < accepted < 3000  # both outcomes are reached


@pytest.mark.long
def test_a_million_mutated_machine_files() -> None:
    parts = 200
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        accepted = sum(pool.map(run, range(parts), [1_000_000 // parts] * parts))
    assert 0 < accepted < 1_000_000
