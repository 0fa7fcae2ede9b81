"""A study under Slurm: one job array, whose tasks simulate a part each and can run any number of times."""

import shlex
import subprocess
from pathlib import Path
from threading import Event

from pagelens.errors import Failure
from pagelens.files import write_whole
from pagelens.host.process_binding import write_list
from pagelens.interrupts import ctrl_c_sets
from pagelens.study.parts import command_of_part, missing_parts, size_of_parts
from pagelens.study.points_to_simulate import PointsToSimulate

FOLDER = "slurm"  # in that of the results: the job's script, its number, and what its tasks said
FIRST_POLL_S, LAST_POLL_S = 0.25, 10.0  # between two looks at the queue


def simulate_under_slurm(work: PointsToSimulate) -> None:
    """Submit the missing parts as one array, and wait until they are done.

    A job that is still in the queue from before is waited for instead of submitted again. Partition, account
    and time limit are those of sbatch's environment, as SBATCH_PARTITION. Raises Failure where points are
    still missing when the job has left the queue, and Interrupted on Ctrl-C, upon which the job goes on.
    """
    cancel = Event()
    with ctrl_c_sets(cancel):
        _wait(work, _job_before(work.directory), cancel)
        if work.complete() == len(work.points.all):
            return
        job = _submit(work)
        _wait(work, job, cancel)
    missing = len(work.points.all) - work.complete()
    if missing:
        number = job.partition(";")[0]
        raise Failure(
            f"--on slurm: job {number} has ended and {missing} of {len(work.points.all)} points are missing; "
            f"{work.directory / FOLDER}/{number}_*.log say why, and the same command again does the rest"
        )


def _submit(work: PointsToSimulate) -> str:
    """Return the number of the new job."""
    folder = work.directory / FOLDER
    folder.mkdir(exist_ok=True)
    size = size_of_parts(work)
    script = folder / "part.sh"
    command = shlex.join(command_of_part(work))
    text = (
        f"#!/bin/sh\nfirst=$((SLURM_ARRAY_TASK_ID * {size}))\nexec {command} $first-$((first + {size - 1}))\n"
    )
    write_whole(script, lambda partial: partial.write_text(text))
    words = [
        "sbatch", "--parsable", f"--array={write_list(missing_parts(work))}", "--job-name=pagelens-study",
        f"--output={folder.resolve()}/%A_%a.log", str(script.resolve()),
    ]  # fmt: skip
    done = _run(words)
    if done.returncode != 0:
        hint = "; a larger --chunk makes fewer tasks" if "array" in done.stderr.lower() else ""
        raise Failure(f"--on slurm: sbatch: {' '.join(done.stderr.split())}{hint}")
    job = done.stdout.strip()  # NUMBER, or NUMBER;CLUSTER where sbatch was told of another cluster
    write_whole(folder / "job", lambda partial: partial.write_text(job + "\n"))
    return job


def _job_before(directory: Path) -> str | None:
    """Return the job that an earlier run has submitted."""
    try:
        return (directory / FOLDER / "job").read_text().strip()
    except OSError:
        return None


def _wait(work: PointsToSimulate, job: str | None, cancel: Event) -> None:
    """Wait until the job has left the queue or all points are there; the controller may be down meanwhile."""
    pause_s = FIRST_POLL_S
    number, of_cluster = _number_and_cluster(job or "")
    while job is not None and _is_queued(job):
        done = work.complete()
        if done == len(work.points.all):
            return
        if cancel.wait(pause_s):
            raise work.stopped(
                done,
                f"job {number} goes on (`{shlex.join(['scancel', *of_cluster, number])}` ends it), and the "
                "same command waits for it again",
            )
        pause_s = min(LAST_POLL_S, 1.5 * pause_s)


def _is_queued(job: str) -> bool:
    """Return whether a task of the job waits or runs. A controller that does not answer has not said no."""
    number, of_cluster = _number_and_cluster(job)
    done = _run(["squeue", "--noheader", *of_cluster, f"--jobs={number}", "--format=%T"])
    if done.returncode != 0:
        return "Invalid job id" not in done.stderr
    return any(line.strip() and not line.startswith("CLUSTER:") for line in done.stdout.splitlines())


def _number_and_cluster(job: str) -> tuple[str, list[str]]:
    """Return a job's number, and the option of Slurm's commands where it is on another cluster."""
    number, _, cluster = job.partition(";")
    return number, [f"--clusters={cluster}"] if cluster else []


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise Failure(
            f"--on slurm: there is no {words[0]} here; run this on a node of the cluster, or leave out --on"
        ) from None
