"""A study on a cluster of Dask on loopback: equal to the byte, also if a worker is killed."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from test_study_slurm import STUDY, shards

import pagelens as pl

pytest.importorskip("distributed")

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a part of the cluster, which ends with the test."""
    with ExitStack() as stack:

        def begin(*words: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((tmp_path / "log").open("ab"))
            where = ["--scheduler-file", str(tmp_path / "scheduler.json"), "--host", "127.0.0.1"]
            command = [sys.executable, "-m", "distributed.cli." + words[0], *where, *words[1:]]
            process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield begin


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60  # far beyond what any step takes
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_results_are_those_of_threads_whatever_is_killed(start: Start, tmp_path: Path) -> None:
    """First a worker is killed, and then, while another output is made, the scheduler."""
    file = tmp_path / "small.toml"
    file.write_text(STUDY)
    scheduler = start("dask_scheduler", "--port", "0", "--no-dashboard")
    options = ("--no-nanny", "--nthreads", "1", "--no-dashboard")
    workers = [start("dask_worker", *options) for _ in range(2)]
    pl.study(file, tmp_path / "threads", progress=False)
    wait_for((tmp_path / "scheduler.json").exists)

    def studied(out: Path, killed: subprocess.Popen[bytes]) -> tuple[int, str]:
        words = [
            "study",
            str(file),
            "-o",
            str(out),
            "--on",
            f"dask:{tmp_path}/scheduler.json",
            "--chunk",
            "1",
        ]
        client = subprocess.Popen(
            [sys.executable, "-m", "pagelens", *words, "--quiet"], stderr=subprocess.PIPE
        )
        wait_for(lambda: bool(shards(out)) or client.poll() is not None)
        killed.kill()
        said = client.communicate(timeout=120)[1].decode()
        return client.returncode, said

    without_a_worker, interrupted = tmp_path / "worker", tmp_path / "scheduler"
    assert studied(without_a_worker, workers[0]) == (0, "")
    status, said = studied(interrupted, scheduler)
    assert status == 1
    assert "points are missing (the scheduler has gone); the same command again does the rest" in said
    assert len(said.splitlines()) == 1
    pl.study(file, interrupted, progress=False)
    for out in (without_a_worker, interrupted):
        assert shards(tmp_path / "threads") == shards(out)
        assert (tmp_path / "threads/study.parquet").read_bytes() == (out / "study.parquet").read_bytes()


def test_what_is_no_scheduler_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(STUDY)
    for on, says in (
        ("dask", "'dask' needs a scheduler; write dask:tcp://HOST:8786"),
        ("dask:nowhere.json", "there is no file nowhere.json"),
        ("slurm:x", "slurm takes nothing behind it"),
        ("slrum", "did you mean slurm"),
    ):
        with pytest.raises(pl.UsageError, match=says):
            pl.study(file, tmp_path / "out", on=on, progress=False)
