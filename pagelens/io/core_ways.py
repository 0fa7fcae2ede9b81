"""Other ways that concern cores: more of them, the one of the interrupts, and one left to the kernel."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from pagelens.io import classify as paths
from pagelens.io.option import Option, Run, wall_of
from pagelens.io.predict import Cost, of_storage_s, pace, predict
from pagelens.machine import Io


def more_threads(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Divide the transfers of one thread among two or all writers that were measured, whichever is faster.

    They make the storage no faster than the whole node can use it.
    """
    if io.writers is None or io.writers_apart is None or _threads(frame) > 1:
        return None
    measured = [(io.writers_apart.value, io.writers.value)]
    if io.two_writers_apart is not None:
        measured.append((io.two_writers_apart.value, 2))
    factor, writers = max(measured)
    factor = max(factor, 1 / writers)
    moves = (frame["bytes"] > 0).to_numpy()
    if not moves.any() or math.isclose(factor, 1.0):
        return None
    alone = wall_of(now)
    return Option(
        "threads",
        f"{writers} threads, a core each",
        "threads that share the transfers",
        now,
        np.where(moves, np.maximum(alone / factor, np.minimum(of_storage_s(frame, io), alone)), alone),
    )


def interrupt_core(frame: pl.DataFrame, io: Io, now: Cost) -> Option | None:
    """Bind a program with one thread to the processor that takes the interrupts of the storage."""
    if io.interrupt_core is None:
        return None
    core = io.interrupt_core.value
    there = on_core(frame, io, core)
    if there is None or not (there.cpu_s < now.cpu_s).any():
        return None
    return Option(
        "interrupt-core",
        f"on processor {core}, where interrupts come",
        "a program that shares this processor with the interrupts",
        there,
        applied_by=f"--apply hints --cores {core}",
    )


def on_core(frame: pl.DataFrame, io: Io, core: int) -> Cost | None:
    """Return the cost if a program with one thread is bound to a processor.

    Return None if it has more threads, or nobody knows which processor takes the interrupts.
    """
    if io.interrupt_core is None or _threads(frame) > 1:
        return None
    return predict(frame.with_columns(cpu=pl.lit(core, pl.UInt16)), io)


def kernel_core(frame: pl.DataFrame, io: Io, now: Cost, run: Run) -> Option | None:
    """Leave one core to the kernel, which writes data back there and takes interrupts (Slurm's `-S 1`).

    The kernel's work is what fsync takes for the same bytes. If the program keeps all cores busy, that work
    no longer delays it, but one core fewer does the program's own work. If it does not, a core is free.
    """
    if run.busy_cores <= 0 or run.cores < 2 or io.sync_work is None:
        return None
    writes = frame["path"].is_in([paths.WRITE, paths.OVERWRITE]).to_numpy()
    if not writes.any():
        return None
    seconds = pace(io.sync_work, io.small_folio_sync_work, frame["folio_share"].to_numpy())
    kernel_s = float((frame["bytes"].to_numpy() * seconds)[writes].sum())
    all_busy = run.busy_cores > run.cores - 1
    saved = kernel_s / run.cores if all_busy else 0.0
    lost = run.elapsed_s * max(run.busy_cores / (run.cores - 1) - 1, 0.0)
    return Option(
        "kernel-core",
        "one core left to the kernel",
        "a core fewer for the program (`-S 1` in Slurm)",
        now,
        other_s=lost - saved,
        applied_by="--apply hints --leave-cores 1",
    )


def _threads(frame: pl.DataFrame) -> int:
    return frame.select("process", "thread").n_unique()
