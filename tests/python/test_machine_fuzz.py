"""The readers of machines/ survive any bytes: a short run, and a million inputs in `make test-long`."""

import os
from concurrent.futures import ProcessPoolExecutor

import pytest
from machine_files import run


def test_mutated_machine_files_give_what_they_state_or_one_line() -> None:
    accepted = run(seed=1, count=3000)
    assert 0 < accepted < 3000  # both outcomes are reached


@pytest.mark.long
def test_a_million_mutated_machine_files() -> None:
    parts = 200
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        accepted = sum(pool.map(run, range(parts), [1_000_000 // parts] * parts))
    assert 0 < accepted < 1_000_000
