"""Measures operations on files in a folder, in some 30 seconds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.host.stalls import IdleMemory
from pagelens.measure.files.calls import NewFiles, call_steps, measure_writers
from pagelens.measure.files.measured import Measured
from pagelens.measure.files.series import FILE_BYTES, MIB, Scratch
from pagelens.measure.files.system import read_file_system
from pagelens.measure.files.transfers import NEW, OLD, transfer_steps

SIZES = (512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB)
SECONDS = 30.0  # default time of a measurement
LEAST_BYTES = 3 * FILE_BYTES  # of free space
# Each size and kind is measured in every round. A disturbance of some seconds is then in one of them, and the
# medians of all leave it out.
ROUNDS = 4
_SERIES = 16  # of each size in a round, or nearly so
_SHARE = 0.6  # of the time is for series; the rest makes files

Progress = Callable[[int, int], None]


def measure_folder(
    folder: Path, seconds: float = SECONDS, progress: Progress | None = None, rounds: int = ROUNDS
) -> Measured:
    """Measure operations on a scratch file in the folder. Raises UsageError for an unfit folder."""
    _check(folder)
    measured = Measured(folder.absolute(), read_file_system(folder))
    scratch = Scratch(folder)
    new_files = NewFiles(scratch)
    steps = list(_steps(measured, scratch, new_files, seconds, rounds))
    try:
        for number, step in enumerate(steps):
            if progress is not None:
                progress(number, len(steps))
            step()
    finally:
        new_files.remove()
        for name in ("", NEW, OLD):
            scratch.remove(name)
    return measured


def _steps(
    m: Measured, scratch: Scratch, new_files: NewFiles, seconds: float, rounds: int
) -> Iterator[Callable[[], None]]:
    each = _SHARE * seconds / (_SERIES * len(SIZES) * rounds)
    idle = IdleMemory()
    for _ in range(rounds):
        yield from transfer_steps(m, scratch, SIZES, each)
        yield scratch.remove
        yield from call_steps(m, scratch, new_files, each)
        yield lambda: m.stalls.extend(idle.stalls().tolist())
    yield lambda: measure_writers(m, scratch)


def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"folder: {folder} is no folder; name one on the file system to measure")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"folder: {folder} is not writable; name another one on the same file system")
    free = shutil.disk_usage(folder).free
    if free < LEAST_BYTES:
        raise UsageError(
            f"folder: {folder} has {free // MIB} MiB of free space, and at least {LEAST_BYTES // MIB} MiB "
            "are needed; free some or name another folder"
        )
