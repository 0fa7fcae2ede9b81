"""Simulates points one after the other, and keeps each as it is done."""

import tempfile
from threading import Event

import polars as pl

from pagelens.api import simulate
from pagelens.errors import Interrupted, UsageError
from pagelens.interrupts import ctrl_c_sets
from pagelens.study.costs import CostLog
from pagelens.study.points import Point, Points
from pagelens.study.points_to_simulate import PointsToSimulate
from pagelens.study.rows import rows_of


def simulate_in_threads(work: PointsToSimulate) -> None:
    """Simulate the points that the store does not have; the nodes of each in a thread a core.

    Raises Interrupted on Ctrl-C, by which the point that is under way is lost.
    """
    points, store = work.points, work.store
    done = work.complete()
    missing = [point for point in points.all if point.key not in store]
    costs, cancel = CostLog(work.directory), Event()
    with ctrl_c_sets(cancel):
        for point in missing:
            if cancel.is_set():
                break
            # Two points of one study can be equal, as where a range is rounded to whole numbers.
            if point.key not in store:
                try:
                    with costs.of_point(point.key):
                        store.write(point.key, _simulate(points, point))
                except Interrupted:
                    break
                except UsageError as error:
                    raise _refused(points, point, error) from None
            done += 1
            work.progress(done, len(points.all))
    if done < len(points.all):
        raise work.stopped(done)


def _refused(points: Points, point: Point, error: UsageError) -> UsageError:
    """Return the error for a point, such as a job that a node has too little free memory for."""
    file = points.stated.file
    values = ", ".join(f"{name} = {point.values[name]!r}" for name in file.varied or file.inputs)
    return points.stated.refused("inputs", f"point {point.number} ({values}): {error}")


def _simulate(points: Points, point: Point) -> pl.DataFrame:
    file = points.stated.file
    # Another process may simulate the same point; what is kept of it is its rows.
    with tempfile.TemporaryDirectory(prefix="pagelens-study-") as folder:
        ensemble = simulate(
            point.workload,
            point.scaled,
            list(points.policies.values()),
            file.nodes,
            history=point.history,
            seed=file.seed,
            output=folder,
            phase=file.phase,
            progress=False,
            precision=file.precision,
        )
    return rows_of(ensemble)
