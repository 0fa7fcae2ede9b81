"""A study on a cluster of Dask: each part is a command that a worker runs, and may run again."""

import logging
import subprocess
from pathlib import Path
from threading import Event
from typing import Any

from pagelens.errors import Failure, UsageError
from pagelens.interrupts import ctrl_c_sets
from pagelens.study.parts import command_of_part, missing_parts, size_of_parts
from pagelens.study.points_to_simulate import PointsToSimulate

POLL_S = 0.25  # between two looks at the tasks
TIMEOUT_S = 10  # for the scheduler to answer at first


def simulate_under_dask(work: PointsToSimulate) -> None:
    """Submit a task for each missing part, and wait until they are done.

    `work.where` is the address of the scheduler, such as tcp://host:8786, or the file that it has written.
    Tasks are plain commands, so workers need no code of the study. Dask gives the task of a worker that died
    to another one. Raises Failure where points are still missing at the end, and Interrupted on Ctrl-C.
    """
    if work.complete() == len(work.points.all):
        return
    words, size = command_of_part(work), size_of_parts(work)
    commands = [[*words, f"{size * part}-{size * part + size - 1}"] for part in missing_parts(work)]
    cancel = Event()
    with ctrl_c_sets(cancel), _connect(work.where) as client:
        settings = {"capture_output": True, "text": True, "check": False, "pure": False}
        tasks = [client.submit(subprocess.run, command, **settings) for command in commands]
        while client.status == "running" and not all(task.done() for task in tasks):
            done = work.complete()
            if cancel.wait(POLL_S):
                client.cancel(tasks)
                raise work.stopped(
                    done, "parts that run end by themselves, and the same command does the rest"
                )
        why = _first_failure(tasks) if client.status == "running" else "the scheduler has gone"
    missing = len(work.points.all) - work.complete()
    if missing:
        raise Failure(
            f"--on dask: {missing} of {len(work.points.all)} points are missing ({why}); the same command "
            "again does the rest"
        )


def _connect(where: str) -> Any:
    """Return a client of the scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise Failure("--on dask: needs the package 'distributed'; pip install 'pagelens[dask]'") from None
    # A scheduler that goes is told of in one line below, not by a traceback.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    connect: Any = Client  # which is not typed
    if not where:
        raise UsageError(
            "--on: 'dask' needs a scheduler; write dask:tcp://HOST:8786, or dask:FILE that it wrote"
        )
    try:
        if "://" in where:
            return connect(where, timeout=TIMEOUT_S, set_as_default=False)
        if not Path(where).is_file():
            raise UsageError(f"--on: there is no file {where}; name the scheduler's file or its address")
        return connect(scheduler_file=where, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Failure(f"--on dask: no scheduler answers at {where} ({error})") from None


def _first_failure(tasks: list[Any]) -> str:
    """Return what the first task that failed has said."""
    for task in tasks:
        if task.status == "error":
            return str(task.exception())
        if task.status == "finished" and (found := task.result()).returncode != 0:
            return " ".join(found.stderr.split())
    return "no task says why"
