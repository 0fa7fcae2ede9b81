"""Finds the time of operations in which the host of a virtual machine mapped memory."""

from __future__ import annotations

import numpy as np
import polars as pl

from pagelens.host.stalls import stalled
from pagelens.io import classify as paths
from pagelens.machine import Io


def with_stalls(frame: pl.DataFrame, io: Io) -> pl.DataFrame:
    """Return classified operations with what they `stalled`, in ns. It is waiting, and no processor time.

    Only transfers to and from memory alone can tell. They are compared with others of the same path and of
    nearly the same size, at most twice as large. Where nobody measured stalls, there are none.
    """
    found = np.zeros(frame.height)
    if io.memory_stall is not None:
        in_memory = pl.col("path").is_in([paths.WRITE, paths.OVERWRITE, paths.READ])
        alike = frame.with_row_index("at").filter(in_memory & (pl.col("bytes") > 0))
        size = pl.col("bytes").log(2).floor()
        for _, of in alike.group_by("path", size.alias("doublings")):
            found[of["at"].to_numpy()] = stalled(of["cpu_ns"].to_numpy() / 1e9) * 1e9
    stalls = pl.Series("stalled", found)
    return frame.with_columns(stalls, cpu_ns=pl.col("cpu_ns") - stalls, waiting=pl.col("waiting") + stalls)
