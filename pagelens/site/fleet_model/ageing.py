"""How modelled nodes slow down from job to job since their boot, as scripts/ageing_table.py wrote it."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import StringIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lives:
    """The speed of nodes from boot on, [life, job]. 1 is as fast as such a node can be."""

    stream: Floats  # the slowdown of STREAM after that job
    job: Floats  # the slowdown of the application that starts then

    @property
    def last(self) -> int:
        """The last job that the table has.

        An older node is assumed to be like one of its last three jobs.
        """
        return len(self.stream[0]) - 1


@cache
def lives() -> dict[str, Lives]:
    """Return the lives of the same nodes and jobs by kind of sort.

    They are `unsorted`, sorted by `intel`'s module, and `sorted` by this project's rule.
    """
    text = files("pagelens.site.fleet_model").joinpath("ageing.csv").read_text()
    table = pl.read_csv(StringIO(text)).sort("policy", "node", "job")
    return {str(policy): _lives(rows) for (policy,), rows in table.group_by("policy")}


def _lives(rows: pl.DataFrame) -> Lives:
    nodes = rows["node"].n_unique()
    return Lives(
        rows["stream_slowdown"].to_numpy().reshape(nodes, -1),
        rows["job_slowdown"].to_numpy().reshape(nodes, -1),
    )
