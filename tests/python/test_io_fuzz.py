"""The readers of `pagelens io` survive any bytes: a short run, and more inputs in `make test-long`."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from io_logs import run

_LONG = {"strace": 450_000, "fio": 5_000_000, "raw-bytes": 4_080_000, "recording": 400_000, "raw": 70_000}


@pytest.mark.parametrize(
    ("target", "count"), [("strace", 500), ("fio", 2000), ("raw", 100), ("recording", 1000)]
)
def test_mutated_logs_give_a_recording_or_one_line(target: str, count: int) -> None:
    accepted = run(target, 1, count)
    assert 0 < accepted < count  # both outcomes are reached


@pytest.mark.long
def test_ten_million_mutated_logs() -> None:
    parts = 50
    jobs = [(target, seed, count // parts) for target, count in _LONG.items() for seed in range(parts)]
    # The child of a fork has the locks of Polars, but not the threads that would release them.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        assert sum(pool.map(run, *zip(*jobs, strict=True))) > 0
