"""Finds the time of operations in which the host of a virtual machine mapped memory."""

from __future__ import annotations

import numpy as np
import polars as pl

from pagelens.address.units import HUGE_PAGE_BYTES
from pagelens.host.stalls import stalled
from pagelens.io import classify as paths
from pagelens.io.kinds import KINDS
from pagelens.machine import Io


def with_stalls(frame: pl.DataFrame, io: Io) -> pl.DataFrame:
    """Return classified operations with what they `stalled`, in ns. It is waiting, and no processor time.

    Only transfers to and from memory alone can tell. They are compared with others of the same path and of
    nearly the same size, at most twice as large, byte for byte. The first read into 2 MiB of memory cannot
    tell, because the kernel may have cleared a large page. Where nobody measured stalls, there are none.
    """
    found = np.zeros(frame.height)
    if io.memory_stall is not None:
        in_memory = pl.col("path").is_in([paths.WRITE, paths.OVERWRITE, paths.READ])
        tells = frame.select(in_memory & (pl.col("bytes") > 0) & ~_reaches_new_memory()).to_series()
        alike = frame.with_row_index("at").filter(tells)
        size = pl.col("bytes").log(2).floor()
        for _, of in alike.group_by("path", size.alias("doublings")):
            cpu_s = of["cpu_ns"].to_numpy() / 1e9
            found[of["at"].to_numpy()] = stalled(cpu_s, of["bytes"].to_numpy()) * 1e9
    stalls = pl.Series("stalled", found)
    return frame.with_columns(stalls, cpu_ns=pl.col("cpu_ns") - stalls, waiting=pl.col("waiting") + stalls)


def _reaches_new_memory() -> pl.Expr:
    """Return whether an operation is the first read of its process into 2 MiB at an end of its buffer."""
    end = pl.col("address") + pl.col("bytes").clip(1).cast(pl.UInt64) - 1
    is_read = pl.col("kind") == KINDS["read"]
    firsts = (
        pl.struct(is_read, "process", place // HUGE_PAGE_BYTES).is_first_distinct()
        for place in (pl.col("address"), end)
    )
    return is_read & pl.any_horizontal(firsts)
