"""A study from its file to its result."""

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pagelens.errors import Interrupted, UsageError
from pagelens.output_directory import claim_directory
from pagelens.progress import progress_bar
from pagelens.spelling import nearest
from pagelens.study.costs import Status, read_costs
from pagelens.study.dask import simulate_under_dask
from pagelens.study.points import Points
from pagelens.study.points_to_simulate import PointsToSimulate, Workers
from pagelens.study.result import StudyResult, result_of
from pagelens.study.simulating import simulate_in_threads
from pagelens.study.slurm import simulate_under_slurm
from pagelens.study.store import PointStore
from pagelens.study.study_file import read_study

WORKERS: Mapping[str, Workers] = {
    "threads": simulate_in_threads,
    "slurm": simulate_under_slurm,
    "dask": simulate_under_dask,
}
Given = str | os.PathLike[str] | Mapping[str, Any]


def study(
    study: Given,
    output: str | os.PathLike[str] | None = None,
    *,
    on: str = "threads",
    chunk: int | None = None,
    progress: bool = True,
) -> StudyResult:
    """Simulate every point of a grid or a sample of inputs: machines, programs, policies, histories.

    `study` is a TOML file, or a mapping with the same keys (docs/study.md). `inputs` names the values of each
    input; a key with a dot is a value of the machine file. `policies` are compared at each point, on the same
    nodes. Equal studies give equal rows, whatever the number of threads.

    Results are kept in `output`, where `study.parquet` is the table, or for as long as this process lives.
    After Ctrl-C or a kill the same call simulates only the points that are missing. `.table` of the result
    has a row for each point and policy; `.to_pandas()` and `.to_xarray()` hand it on. `progress` shows a bar
    on a terminal.

    `on` says where: "threads" of this process; "slurm", a job array of the cluster that this runs on; or
    "dask:" and the address or the file of a scheduler. Tasks of a cluster simulate `chunk` points each, and
    `study` and `output` must be on a file system that they see.

    Raises UsageError, with the place in the file, for what cannot be simulated, before anything runs; and
    Interrupted on Ctrl-C, whose `partial` is the result of the points that are done.

    >>> inputs = {"machine": "cori-knl-cache", "workload": "stream-triad", "size": "300MB"}
    >>> inputs["memory_side_cache.ways"] = [1, 2]
    >>> found = study({"inputs": inputs, "policies": ["random"], "nodes": 1}, progress=False)
    >>> found.table["memory_side_cache.ways"].to_list()
    [1, 2]
    """
    name, _, where = on.partition(":")
    if (workers := WORKERS.get(name)) is None:
        raise UsageError(f"on: '{name}' is unknown; did you mean {nearest(name, WORKERS)}?")
    if where and name != "dask":
        raise UsageError(f"on: '{on}': {name} takes nothing behind it; leave out ':{where}'")
    if chunk is not None and chunk < 1:
        raise UsageError(f"chunk: {chunk}: a part has one point at least")
    stated = read_study(study)
    points = Points(stated)
    directory = Path(output) if output is not None else _kept_while_this_process_lives() / stated.name
    with claim_directory(directory), progress_bar(not progress, "points") as bar:
        store = PointStore(directory)
        try:
            workers(PointsToSimulate(points, store, directory, bar, chunk, where))
        except Interrupted as error:
            error.partial = result_of(points, store, directory)
            raise
        store.sweep()
    return result_of(points, store, directory)


def study_part(path: Path, directory: Path, part: range, *, progress: bool = True) -> None:
    """Simulate a range of the points of a file, and nothing else: a job of a cluster, which can run twice.

    Any number of such processes can work on one study at a time. Raises as `study` does.
    """
    points = Points(read_study(path), part)
    if not points.all:
        raise UsageError(
            f"--points: {part.start}-{part.stop - 1}: the study has {points.count} points; name some from 0 "
            f"to {points.count - 1}"
        )
    with progress_bar(not progress, "points") as bar:
        simulate_in_threads(PointsToSimulate(points, PointStore(directory), directory, bar))


def study_so_far(study: Given, directory: Path, write: bool = True) -> tuple[StudyResult, Status]:
    """Return what is done of a study, and what that has cost, without simulating anything.

    `write` says whether the table of what is done is kept, as `study` does at its end.
    """
    stated = read_study(study)
    points = Points(stated)
    if not directory.is_dir():
        raise UsageError(f"--output: there is no folder {directory}; run the study first, or name its folder")
    found = result_of(points, PointStore(directory), directory, write)
    keys = {point.key for point in points.all}
    costs = [seconds for key, seconds in read_costs(directory).items() if key in keys]
    mean = sum(costs) / len(costs) if costs else None
    return found, Status(len(points.all), len(points.all) - found.missing, mean)


def default_folder(study: Path) -> Path:
    """Return where the results of a study's file go unless the user says so."""
    return Path("pagelens-out") / study.stem


@functools.cache
def _kept_while_this_process_lives() -> Path:
    folder = tempfile.mkdtemp(prefix="pagelens-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
