"""A study in a real Slurm: equal to the byte, and whatever is killed, only what is missing is done again."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from machine_roles import CACHE_MODE
from slurm_cluster import SlurmCluster, cluster, running_cluster

import pagelens as pl

__all__ = ["cluster", "running_cluster"]  # fixtures

STUDY = f"""\
schema = 1
title = "A test"
policies = ["random"]
nodes = 1

[inputs]
machine = "{CACHE_MODE}"
workload = "stream-triad"
size = "40MB"
history = "boot; run"
cores.count = 8
fast_memory.size = "128 MiB"
ddr.size = "1 GiB"
memory_side_cache.ways = [1, 2]
"""


@pytest.fixture
def folder(cluster: SlurmCluster) -> Path:
    """A folder with the study, which all nodes see."""
    found = cluster.folder / f"study-{os.urandom(4).hex()}"
    found.mkdir()
    (found / "small.toml").write_text(STUDY)
    return found


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "pagelens", "study", f"{folder}/small.toml", "-o", f"{folder}/out",
            "--on", "slurm", "--chunk", "1", "--quiet", *words]  # fmt: skip


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("points/*.parquet")}


def tasks(folder: Path) -> list[int]:
    """The processes of the tasks that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"--points" in words and os.fsencode(folder / "out") in words:
                found.append(int(path.parent.name))
    return found


def submitted(folder: Path) -> str:
    """The numbers of the tasks of the last job, by their logs."""
    job = (folder / "out/slurm/job").read_text().strip()
    return ",".join(sorted(path.stem.partition("_")[2] for path in folder.glob(f"out/slurm/{job}_*.log")))


def test_results_are_those_of_threads_and_only_missing_points_are_submitted(
    cluster: SlurmCluster, folder: Path, tmp_path: Path
) -> None:
    done = cluster.run(*command(folder), timeout_s=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert submitted(folder) == "0,1"
    pl.study(folder / "small.toml", tmp_path, progress=False)
    assert shards(tmp_path) == shards(folder / "out")
    assert (tmp_path / "study.parquet").read_bytes() == (folder / "out/study.parquet").read_bytes()
    next((folder / "out/points").iterdir()).unlink()
    assert cluster.run(*command(folder), timeout_s=300).returncode == 0
    assert len(submitted(folder)) == 1
    assert shards(tmp_path) == shards(folder / "out")


def test_whatever_is_killed_only_what_was_running_is_lost(
    cluster: SlurmCluster, folder: Path, tmp_path: Path
) -> None:
    """The client and a task are killed, and the controller is away for a while."""
    wait = f"until [ -e {folder}/go ]; do sleep 0.05; done\n"  # no task runs before the test says so
    cluster.script("prolog.sh", f"#!/bin/sh\ntouch {folder}/began-$SLURM_JOB_ID\n{wait}")
    client = cluster.start(*command(folder))
    cluster.wait_for(lambda: (folder / "out/slurm/job").exists(), "the job")
    cluster.wait_for(lambda: any(folder.glob("began-*")), "a node's Prolog")
    client.kill()
    client.wait()
    first = (folder / "out/slurm/job").read_text()
    again = cluster.start(*command(folder))  # waits for the job that is there
    cluster.stop_controller()
    cluster.start_controller()
    cluster.wait_for(lambda: cluster.run("squeue", "-h").returncode == 0, "the controller")
    (folder / "go").touch()
    cluster.wait_for(lambda: bool(tasks(folder)), "a task")
    os.kill(tasks(folder)[0], signal.SIGKILL)
    assert again.wait(timeout=300) == 0
    assert (folder / "out/slurm/job").read_text() != first  # of what the killed task had not done
    assert len(submitted(folder)) == 1
    pl.study(folder / "small.toml", tmp_path, progress=False)
    assert shards(tmp_path) == shards(folder / "out")


def test_ctrl_c_leaves_the_job_and_the_same_command_waits_for_it(cluster: SlurmCluster, folder: Path) -> None:
    cluster.script("prolog.sh", f"#!/bin/sh\nuntil [ -e {folder}/go ]; do sleep 0.05; done\n")
    client = subprocess.Popen(
        command(folder), env=cluster.environment, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    cluster.wait_for(lambda: (folder / "out/slurm/job").exists(), "the job")
    number = (folder / "out/slurm/job").read_text().strip()
    client.send_signal(signal.SIGINT)
    _, said = client.communicate(timeout=60)
    assert client.returncode == 130
    assert f"job {number} goes on (`scancel {number}` ends it)" in said
    (folder / "go").touch()
    assert cluster.run(*command(folder), timeout_s=300).returncode == 0
    assert (folder / "out/slurm/job").read_text().strip() == number


def test_a_job_that_fails_says_where_the_reason_is(cluster: SlurmCluster, folder: Path) -> None:
    """The second run, of what is missing, succeeds."""
    cluster.script("prolog.sh", f"#!/bin/sh\nmv {folder}/small.toml {folder}/away.toml\nexit 0\n")
    done = cluster.run(*command(folder), timeout_s=300)
    assert done.returncode == 1
    job = (folder / "out/slurm/job").read_text().strip()
    assert f"job {job} has ended and 2 of 2 points are missing" in done.stderr
    assert "cannot read" in (folder / f"out/slurm/{job}_0.log").read_text()


def test_without_slurm_the_command_says_so(folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(folder), env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "--on slurm: there is no sbatch here" in done.stderr
