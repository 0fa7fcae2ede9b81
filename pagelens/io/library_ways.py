"""Other ways that MPI-IO and HDF5 have: aggregators and their buffers, chunks and alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from pagelens.io import classify as paths
from pagelens.io.kinds import CALLERS
from pagelens.io.option import BUFFERED, Option, buffered, copy_s, sizes_of, speed_up, wall_of
from pagelens.io.predict import Cost, Floats, costs_of, predict, table_cost
from pagelens.machine import Io
from pagelens.units import format_binary_size

_COLLECTIVE = [n for n, name in enumerate(CALLERS) if name.startswith("MPI_File_") and "_all" in name
               and "allocate" not in name]  # fmt: skip
_MPI = [n for n, name in enumerate(CALLERS) if name.startswith("MPI_")]
# H5Dclose writes the chunks that are left in the cache.
HDF5_DATA = [CALLERS.index(name) for name in ("H5Dread", "H5Dwrite", "H5Dclose")]
_HDF5 = [n for n, name in enumerate(CALLERS) if name.startswith("H5")]
_OPENS_DATA = [CALLERS.index(name) for name in ("H5Fopen", "H5Fcreate", "H5Fclose", "H5Dopen2")]
_BUFFERS = (1 << 20, 4 << 20, 16 << 20)  # bytes of an aggregator
_COPIES = 2  # of each byte, into a message and out of it
_FEWEST_RANKS = 2
_PAGE = 4096  # bytes


@dataclass(frozen=True)
class _Collected:
    """The collective transfers if some ranks made them for all."""

    aggregators: int
    buffer: int
    cpu_s: float
    wait_s: float
    wall_s: float


def aggregators(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Let some ranks collect the data of collective calls, and transfer them in large requests.

    Each call's range of the file is divided evenly among the aggregators, as ROMIO does, and each transfers
    its part in buffers. The n-th operation of a rank in a collective function counts as one of the n-th call.
    """
    where = buffered(frame) & frame["caller"].is_in(_COLLECTIVE).to_numpy()
    ranks = frame.filter(pl.col("caller").is_in(_MPI))["process"].n_unique()
    if ranks < _FEWEST_RANKS or not where.any() or np.isnan(now.cpu_s[where]).any():
        return None
    active = frame.filter(pl.Series(where))["process"].n_unique()
    still = predict(frame.with_columns(gap_ns=pl.lit(0, pl.Int64)), io)
    pause_s = float((now.cpu_s - still.cpu_s)[where].mean())  # of colder caches, after messages as before
    counts = sorted({min(1 << n, ranks) for n in range(ranks.bit_length() + 1)})
    found = [_collected(frame, io, where, n, size, ranks, pause_s) for n in counts for size in _BUFFERS]
    best = min((each for each in found if each is not None), key=lambda each: each.wall_s, default=None)
    if best is None:
        return None
    cpu, wait = float(now.cpu_s[where].sum()), float(now.wait_s[where].sum())
    ratio = best.wall_s / max((cpu + wait) / speed_up(io, active), 1e-12)
    cpu_s, wait_s, wall = now.cpu_s.copy(), now.wait_s.copy(), wall_of(now)
    cpu_s[where] *= best.cpu_s / max(cpu, 1e-12)
    wait_s[where] *= best.wait_s / max(wait, 1e-12)
    wall[where] *= ratio
    buffer = format_binary_size(best.buffer)
    writes = "write" if (frame["path"].to_numpy()[where] == "write").any() else "read"
    return Option(
        "aggregators",
        f"{best.aggregators} aggregator{'s' * (best.aggregators > 1)}, {buffer} buffers",
        "hints for ROMIO, the MPI-IO of MPICH and its relatives",
        Cost(cpu_s, wait_s),
        wall,
        applied_by=f"--apply hints --hint romio_cb_{writes}=enable "
        f"--hint cb_config_list=*:{best.aggregators} --hint cb_buffer_size={best.buffer}",
    )


def _collected(
    frame: pl.DataFrame,
    io: Io,
    where: np.ndarray[tuple[int], np.dtype[np.bool_]],
    count: int,
    buffer: int,
    ranks: int,
    pause_s: float,
) -> _Collected | None:
    """Return what the transfers take with so many aggregators. Messages count as copies without latency."""
    groups = (
        frame.filter(pl.Series(where))
        .group_by("file", "path", "caller", "process")
        .agg(pl.len(), pl.col("bytes").sum())
        .group_by("file", "path", "caller", maintain_order=True)
        .agg(calls=pl.col("len").max(), bytes=pl.col("bytes").sum())
    )
    cpu = wait = moved = 0.0
    for path, calls, size in groups.select("path", "calls", "bytes").rows():
        costs = costs_of(io, path)
        if costs is None:
            return None
        request = min(buffer, max(size / calls / count, 1.0))
        each = table_cost(costs, np.asarray([request]))
        cpu += size / request * (float(each.cpu_s[0]) + pause_s)
        wait += size / request * float(each.wait_s[0])
        moved += size
    copies = float(_COPIES * copy_s(io, np.asarray([moved]))[0])
    wall = (cpu + wait) / speed_up(io, count) + copies / speed_up(io, ranks)
    return _Collected(count, buffer, cpu + copies, wait, wall)


def aligned_objects(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Let HDF5 begin its objects at whole pages. Transfers of whole pages then touch no page in part."""
    whole = (pl.col("bytes") % _PAGE == 0) & ~pl.col("aligned") & pl.col("caller").is_in(_HDF5)
    where = buffered(frame) & frame.select(whole).to_series().to_numpy()
    if not where.any():
        return None
    after = predict(frame.with_columns(aligned=pl.col("aligned") | pl.Series(where)), io)
    return Option(
        "hdf5-alignment",
        f"objects of HDF5 at multiples of {format_binary_size(_PAGE)}",
        "a file that grows a little (H5Pset_alignment)",
        after,
        applied_by=f"--apply hints --hdf5 alignment={format_binary_size(_PAGE).replace(' ', '')}",
    )


def larger_chunks(frame: pl.DataFrame, io: Io, now: Cost, requests: tuple[int, ...]) -> Option | None:
    """Let HDF5 read and write larger chunks, where it transfers one after the other.

    HDF5 gathers a chunk in any case, so no byte is copied once more.
    """
    where = buffered(frame) & frame["caller"].is_in(HDF5_DATA).to_numpy()
    sizes, kind, totals = sizes_of(frame), frame["path"].to_numpy(), _chunk_totals(frame, where)
    best: tuple[float, int, Cost] | None = None
    for request in requests:
        some = where & (sizes < request) & (totals > sizes)
        if not some.any():
            continue
        cpu_s, wait_s = now.cpu_s.copy(), now.wait_s.copy()
        for path in BUFFERED:
            of = some & (kind == path)
            costs = costs_of(io, path)
            if costs is None or not of.any():
                continue
            whole = np.minimum(totals[of], request)
            each = table_cost(costs, whole)
            cpu_s[of], wait_s[of] = each.cpu_s * sizes[of] / whole, each.wait_s * sizes[of] / whole
        spent = float(np.nansum(cpu_s) + np.nansum(wait_s))
        if best is None or spent < best[0]:
            best = (spent, request, Cost(cpu_s, wait_s))
    if best is None:
        return None
    return Option(
        "hdf5-chunks",
        f"chunks of {format_binary_size(best[1])} in HDF5",
        "larger chunks (H5Pset_chunk), and a cache that holds them (H5Pset_chunk_cache)",
        best[2],
    )


def chunk_cache(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Let HDF5 keep all chunks of a data set in its cache while the data set is open.

    A chunk is then read once, and written once, when the data set is closed. A chunk is known by its place in
    the file. A recording does not say when a data set is closed, so a chunk counts anew after each call that
    opens or closes one.
    """
    repeated, need = repeated_chunks(frame)
    if not repeated.any():
        return None
    cpu_s, wait_s = now.cpu_s.copy(), now.wait_s.copy()
    cpu_s[repeated], wait_s[repeated] = 0.0, 0.0
    size = format_binary_size(need)
    return Option(
        "hdf5-cache",
        f"a cache of {size} for chunks of HDF5",
        "memory of that size for each data set (H5Pset_cache)",
        Cost(cpu_s, wait_s),
        applied_by=f"--apply hints --hdf5 cache={size.replace(' ', '')}",
    )


def repeated_chunks(frame: pl.DataFrame) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], int]:
    """Return which transfers a cache that holds all chunks makes needless, and how large it must be.

    The size is a power of two, and at least 1 MiB, which is HDF5's own. Packages such as h5py close files by
    functions that are not recorded, so what then moves a known chunk counts, too.
    """
    keys = ["process", "thread", "file", "generation"]
    chunk = [*keys, "offset", "bytes"]
    by_hdf5 = pl.col("caller").is_in(HDF5_DATA)
    data = (by_hdf5 | (pl.col("caller") == 0)) & by_hdf5.any().over(chunk) & (pl.col("bytes") > 0)
    opens = pl.col("caller").is_in(_OPENS_DATA)
    found = (
        frame.with_row_index("at")
        .with_columns(
            generation=(opens & ~opens.shift(1).fill_null(False)).cum_sum().over("process", "thread", "file")
        )
        .filter(data & pl.Series(buffered(frame)))
        .with_columns(is_read=pl.col("path").is_in([*paths.BUFFERED_READS]))
        .with_columns(
            first=pl.int_range(pl.len()).over(chunk) == 0,
            last_write=~pl.col("is_read")
            & (pl.col("at") == pl.col("at").filter(~pl.col("is_read")).max().over(chunk)),
        )
    )
    repeated = np.zeros(frame.height, np.bool_)
    needless = found.filter(pl.when("is_read").then(~pl.col("first")).otherwise(~pl.col("last_write")))
    repeated[needless["at"].to_numpy()] = True
    sizes = found.filter("first").group_by(keys).agg(pl.col("bytes").sum())["bytes"]
    need = max(int(sizes.max() or 1), 1 << 20)  # type: ignore[arg-type]
    return repeated, 1 << (need - 1).bit_length()


def _chunk_totals(frame: pl.DataFrame, where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """Return for each chunk the bytes of all chunks that lie one after the other in the file.

    HDF5 puts nodes of its index between chunks. A gap that is smaller than a chunk holds no chunk, and so
    belongs to them. With larger chunks there are fewer nodes.
    """
    keys = ["process", "thread", "file", "kind"]
    gap = pl.col("offset") - (pl.col("offset") + pl.col("bytes")).shift(1).over(keys)
    follows = ((gap >= 0) & (gap < pl.col("bytes"))).fill_null(False)
    totals = np.zeros(frame.height)
    totals[where] = (
        frame.filter(pl.Series(where))
        .with_columns(sequence=(~follows).cum_sum().over(keys))
        .select(pl.col("bytes").sum().over(*keys, "sequence"))
        .to_series()
    )
    return totals
