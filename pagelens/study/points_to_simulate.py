"""The points that a study has to simulate, and where they are kept."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pagelens.errors import Interrupted
from pagelens.study.points import Points
from pagelens.study.store import PointStore

Progress = Callable[[int, int], None]  # points done, points in all


@dataclass(frozen=True)
class PointsToSimulate:
    """What is to be simulated, and where it is kept. Others may write to the same store at a time."""

    points: Points
    store: PointStore
    directory: Path
    progress: Progress
    chunk: int | None = None  # points in a part, where a cluster simulates; None: as pagelens chooses
    where: str = ""  # the scheduler of a cluster of Dask

    def complete(self) -> int:
        """Count the points that are there, and show the count."""
        self.store.look()
        done = sum(point.key in self.store for point in self.points.all)
        self.progress(done, len(self.points.all))
        return done

    def stopped(self, done: int, what_goes_on: str = "the same command again does the rest") -> Interrupted:
        """Return what is raised after Ctrl-C."""
        return Interrupted(
            f"stopped with {done} of {len(self.points.all)} points complete, kept in {self.directory}; "
            f"{what_goes_on}"
        )


Workers = Callable[
    [PointsToSimulate], None
]  # simulates what is missing; raises Interrupted or Failure if it does not
