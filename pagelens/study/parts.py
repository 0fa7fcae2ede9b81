"""How a study is cut for a cluster: into ranges of points, each of them a command that can run twice."""

import sys

from pagelens.errors import UsageError
from pagelens.study.points_to_simulate import PointsToSimulate

MOST_PARTS = 100  # unless the user says how large they are: starting Python takes a second or two


def size_of_parts(work: PointsToSimulate) -> int:
    """Return the number of points in a part; part i begins at point i times as many."""
    return work.chunk or -(-work.points.count // MOST_PARTS)


def missing_parts(work: PointsToSimulate) -> list[int]:
    """Return the numbers of the parts of which a point is missing."""
    size = size_of_parts(work)
    return sorted({point.number // size for point in work.points.all if point.key not in work.store})


def command_of_part(work: PointsToSimulate) -> list[str]:
    """Return the command that simulates a part wherever it runs; a range such as 0-9 is to follow.

    The file keeps its name, even if that is a link, because what it names is looked up beside it. Raises
    UsageError for a study that is no file, because another process could not read it.
    """
    path = work.points.stated.path
    if path is None:
        raise UsageError("on: a study for a cluster is a file; write this one as TOML")
    words = [sys.executable, "-m", "pagelens", "study", str(path.absolute()), "--quiet"]
    return [*words, "--output", str(work.directory.resolve()), "--points"]
