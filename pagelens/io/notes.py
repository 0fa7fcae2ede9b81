"""Says what a reader of an explanation should know besides: what the model cannot foresee, and why."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pagelens.io import classify as paths
from pagelens.io.of_path import OfPath
from pagelens.io.recording import Recording
from pagelens.io.recording_gaps import gaps
from pagelens.io.turns import waited_for
from pagelens.machine import Io
from pagelens.units import format_time

WORTH = 0.02  # of the program's time: less is not worth a change
_FAR_OFF = 3.0  # times what the model says; the first files of a folder take half of what later ones do


def notes(
    recording: Recording, frame: pl.DataFrame, sums: list[OfPath], io: Io, elapsed_s: float
) -> list[str]:
    """Return a sentence or two on each such thing."""
    return [
        *_left_out(recording, sums),
        *_slow_new_files(sums, io, elapsed_s),
        *_slow_new_pages(sums, io, elapsed_s),
        *_joined_syncs(frame),
        *_of_recording(recording, io),
    ]


def _left_out(recording: Recording, sums: list[OfPath]) -> Iterator[str]:
    """Say which recorded operations the table of paths does not have, and why."""
    every, regular = recording.operations.height, recording.regular.height
    elsewhere, unknown = every - regular, regular - sum(of.operations for of in sums)
    reasons = [
        f"{count:,} {why}"
        for count, why in (
            (elsewhere, "on pipes, terminals and devices"),
            (unknown, "that the model does not know"),
        )
        if count
    ]
    if reasons:
        yield f"Of {every:,} operations, the table of what they took leaves out {' and '.join(reasons)}."


def _is_slow(of: OfPath, elapsed_s: float) -> bool:
    """Return whether operations took far longer than the model says, and it matters."""
    return of.recorded_cpu_s > _FAR_OFF * of.cpu_s and of.recorded_cpu_s - of.cpu_s >= WORTH * elapsed_s


def _slow_new_files(sums: list[OfPath], io: Io, elapsed_s: float) -> Iterator[str]:
    """Say why new files can take far longer than the model says, if they did and it matters.

    Without a journal, ext4 passes over the inodes of files that were removed some minutes before, one by one
    (fs/ext4/ialloc.c, recently_deleted).
    """
    for of in sums:
        if of.path == paths.CREATING and _is_slow(of, elapsed_s) and io.file_system.value == "ext4":
            yield (
                f"New files took {format_time(of.recorded_cpu_s / of.operations)} each, and "
                f"{format_time(of.cpu_s / of.operations)} by the model. On ext4 without a journal, files "
                "that were removed in the last minutes slow down new ones."
            )


def _slow_new_pages(sums: list[OfPath], io: Io, elapsed_s: float) -> Iterator[str]:
    """Say that a host may have had to give memory for new pages, where nearly each of them took longer."""
    for of in sums:
        if io.memory_stall is not None and of.path == paths.WRITE and _is_slow(of, elapsed_s):
            yield (
                "Writes at the end took far longer than the model says. The host of this virtual machine may "
                "have had to give memory for each page; a second run finds it there."
            )


def _joined_syncs(frame: pl.DataFrame) -> Iterator[str]:
    """Say which fsyncs the model cannot foresee well."""
    syncs = (frame["path"] == paths.SYNC).to_numpy()
    place, _ = waited_for(frame, syncs, syncs, in_order=False)
    if joined := int((place >= 0).sum()):
        yield (
            f"{joined:,} of {int(syncs.sum()):,} calls of fsync began during another thread's fsync of the "
            "file. The processor time of such calls varies up to tenfold (measured)."
        )


def _of_recording(recording: Recording, io: Io) -> list[str]:
    found = []
    if io.direct_write is None:
        found.append(f"{io.file_system.value} has no direct operations here.")
    elif io.direct_copies is not None and io.direct_copies.value:
        found.append(
            f"The files of {io.file_system.value} are in memory: direct operations copy all the same, so "
            "they are not among the ways."
        )
    if not recording.knows("cpu_ns"):
        found.append(
            f"{recording.header.source} does not tell processor times, so the model's cannot be checked."
        )
    found += [f"{line[:1].upper()}{line[1:]}." for line in gaps(recording)]
    found.append("Not in the model: contention with other programs, and the messages between ranks of MPI.")
    return found
