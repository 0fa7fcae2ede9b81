"""The answer of `pagelens io explain`: what operations took, how good the model is, what would help."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pagelens.io import classify as paths
from pagelens.io.classify import classify
from pagelens.io.facts import TRANSFERS, Facts, describe
from pagelens.io.memory_stalls import with_stalls
from pagelens.io.notes import WORTH, notes
from pagelens.io.of_path import OfPath, of_paths
from pagelens.io.option import Option, run_of
from pagelens.io.predict import Floats, predict
from pagelens.io.recording import Recording, without_queues
from pagelens.io.what_if import options
from pagelens.io.why_not import why_not_applied
from pagelens.machine import Io, Machine

GOOD = 0.15  # the model is that near, or a warning comes first


@dataclass(frozen=True)
class Way:
    """One way of doing the operations.

    Times are in seconds; None means that the machine file does not say.
    """

    key: str
    title: str
    effort: str
    cpu_s: float | None
    wait_s: float | None
    wall_s: float | None
    gain: float | None  # the share of the program's wall time that it saves by the model
    gain_range: tuple[float, float] | None  # the same, as far as the machine's own speed varies
    verdict: str  # "gains", "not worth it", "loses", "unknown"
    applied_by: str = ""  # the options of `pagelens io run` that do it
    why_not_applied: str = ""  # if there are none


@dataclass(frozen=True)
class Explanation:
    """The explanation of one recording on one machine."""

    facts: Facts
    machine: str
    file_system: str
    elapsed_s: float
    recorded_cpu_s: float  # the processor time of the operations that the model knows
    recorded_wait_s: float
    stalled_s: float  # of the waiting, for the host of a virtual machine to map memory; no error counts it
    stalls: int  # operations in which that happened
    cpu_s: float
    wait_s: float
    spread: float  # how much longer the same operations take at one moment than at another; 1: not known
    error: float | None  # the error of the processor time, as a share; None if the source does not tell
    wall_error: float | None  # the same of the wall time, in which recorded waits for a processor count, too
    other_s: float  # recorded wall time of operations that the model does not know
    other_paths: list[str]  # what these are, on this file system
    other_systems: list[str]  # file systems whose files are among them
    paths: list[OfPath]
    ways: list[Way]  # first as it ran, then by their gain
    notes: list[str]

    @property
    def varies_as_much(self) -> bool:
        """Whether the error of the processor time is no larger than what the machine itself changes."""
        return self.error is not None and _factor(self.error) <= self.spread

    @property
    def is_far_off(self) -> bool:
        """Whether the error of the processor time is large, and so much that it could hide a gain."""
        far = self.error is not None and abs(self.error) > GOOD and not self.varies_as_much
        return far and self.recorded_cpu_s >= WORTH * self.elapsed_s

    @property
    def waits_are_far_off(self) -> bool:
        """Whether the same is true of the wall time."""
        if self.wall_error is None or _factor(self.wall_error) <= max(1 + GOOD, self.spread):
            return False
        recorded = self.recorded_cpu_s + self.recorded_wait_s
        return abs(self.wall_error) * recorded >= WORTH * self.elapsed_s

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as docs/io.md describes it."""
        return {"schema": "pagelens io explain", "version": 1, **asdict(self), "facts": self.facts.to_json()}


def explain_recording(
    recording: Recording, machine: Machine, elsewhere: Machine | None = None
) -> Explanation:
    """Explain a recording by the section [io] of a machine. With `elsewhere`, predict it there, too."""
    io = machine.io
    assert io is not None
    every = classify(recording)
    if io.interrupt_core is not None and not recording.knows("cpu"):
        every = every.with_columns(cpu=pl.lit(io.interrupt_core.value, pl.UInt16))
    on = _files_on(recording, io.file_system.value)
    known = np.isfinite(predict(every, io).cpu_s) & every["file"].is_in(on).to_numpy()
    frame = with_stalls(every.filter(pl.Series(known)), io)
    others = every.filter(pl.Series(~known))
    found = list(options(frame, io, run_of(recording, machine.cores.count.value)))
    elapsed = (recording.header.elapsed_ns or _span(every)) / 1e9
    spread = 1.0 if io.spread is None else max(1.0, io.spread.value)
    ways = _ways(frame, found, elapsed, spread)
    if elsewhere is not None and elsewhere.io is not None:
        ways += _elsewhere(frame, elsewhere, elsewhere.io)
    cpu_s, wait_s = float(np.nansum(found[0].cost.cpu_s)), float(np.nansum(found[0].cost.wait_s))
    recorded = float(frame["cpu_ns"].sum()) / 1e9
    stalled = float(frame["stalled"].sum()) / 1e9
    took = float(frame["wall_ns"].sum()) / 1e9 - stalled
    sums = of_paths(frame, found[0].cost)
    tells = recording.knows("cpu_ns") and recorded > 0
    return Explanation(
        facts=describe(recording),
        machine=machine.title,
        file_system=io.file_system.value,
        elapsed_s=elapsed,
        recorded_cpu_s=recorded,
        recorded_wait_s=float(frame["waiting"].sum()) / 1e9,
        stalled_s=stalled,
        stalls=int((frame["stalled"] > 0).sum()),
        cpu_s=cpu_s,
        wait_s=wait_s,
        spread=spread,
        error=cpu_s / recorded - 1 if tells else None,
        wall_error=(cpu_s + wait_s) / took - 1 if took > 0 else None,
        other_s=float(others["wall_ns"].sum()) / 1e9,
        other_paths=sorted(set(others.filter(pl.col("file").is_in(on))["path"].to_list())),
        other_systems=sorted(
            {recording.header.files[n].file_system for n in set(others["file"].to_list()) - set(on)}
        ),
        paths=sums,
        ways=ways,
        notes=notes(recording, frame, sums, io, elapsed),
    )


def busiest_folder(recording: Recording) -> tuple[Path, int] | None:
    """Return the folder with the most traffic, and its device.

    Return None if there are no files.
    """
    moved = pl.when(pl.col("kind").is_in(TRANSFERS)).then(pl.col("result").clip(0)).otherwise(0)
    frame = without_queues(recording.regular).group_by("file").agg(moved=moved.sum())
    for number in frame.sort("moved", "file", descending=[True, False])["file"].to_list():
        file = recording.header.files[number]
        folder = Path(file.path).parent
        if folder.is_dir():
            return folder, file.device
    return None


def _factor(error: float) -> float:
    """Return by which factor something is off, at least 1."""
    return max(1 + error, 1 / max(1 + error, 1e-9))


def _files_on(recording: Recording, file_system: str) -> list[int]:
    """Return the files of that file system, or all files if the recording does not say where they are."""
    return [
        n for n, file in enumerate(recording.header.files) if file.file_system in ("", file_system, "unknown")
    ]


def _span(frame: pl.DataFrame) -> int:
    return int(frame.select((pl.col("start_ns") + pl.col("wall_ns")).max()).item() or 0)


def _ways(frame: pl.DataFrame, found: list[Option], elapsed_s: float, spread: float) -> list[Way]:
    base = _busiest(frame, found[0].wall_s)
    took = _busiest(frame, frame["wall_ns"].to_numpy() / 1e9)
    most = took or np.inf  # that a way can save, however long the model thinks that they took
    made = []
    for option in found:
        cpu = _total(option.cost.cpu_s)
        wall = _busiest(frame, option.wall_s)
        wait = None if wall is None or cpu is None else float(np.sum(option.cost.wait_s))
        saved = None if wall is None or base is None else min(base - wall, most) - option.other_s
        gain = None if saved is None else saved / max(elapsed_s, 1e-9)
        # What a way leaves as it is takes as long with it as without it, at whatever speed.
        changed = ~np.isclose(option.wall_s, found[0].wall_s, rtol=1e-9, atol=0)
        new = (_busiest(frame, np.where(changed, option.wall_s, 0.0)) or 0) / max(elapsed_s, 1e-9)
        around = None if gain is None else (gain - (spread - 1) * new, gain + (1 - 1 / spread) * new)
        verdict = _verdict(gain)
        why_not = why_not_applied(option.key)
        made.append(
            Way(option.key, option.title, option.effort, cpu, wait, wall, gain, around, verdict,
                option.applied_by, why_not)
        )  # fmt: skip
    return [made[0], *sorted(made[1:], key=lambda way: -(way.gain or 0))]


def _verdict(gain: float | None) -> str:
    if gain is None:
        return "unknown"
    return "gains" if gain >= WORTH else "loses" if gain <= -WORTH else "not worth it"


def _elsewhere(frame: pl.DataFrame, machine: Machine, io: Io) -> list[Way]:
    # Nobody knows on which processor it would run there.
    core = 0 if io.interrupt_core is None else io.interrupt_core.value
    cost = predict(frame.with_columns(cpu=pl.lit(core, pl.UInt16)), io)
    there = Option("elsewhere", f"on {machine.name}", f"{io.file_system.value} there", cost)
    cpu, wall = _total(cost.cpu_s), _busiest(frame, there.wall_s)
    wait = None if wall is None else float(np.nansum(cost.wait_s))
    return [Way(there.key, there.title, there.effort, cpu, wait, wall, None, None, "")]


def _total(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    return None if np.isnan(seconds).any() else float(seconds.sum())


def _busiest(frame: pl.DataFrame, wall: Floats) -> float | None:
    """Return the wall seconds of the operations of the busiest thread."""
    if not wall.size:
        return 0.0
    if np.isnan(wall).any():
        return None
    by_thread = (
        frame.select("process", "thread").with_columns(wall=pl.Series(wall)).group_by("process", "thread")
    )
    return float(by_thread.agg(pl.col("wall").sum())["wall"].max() or 0)  # type: ignore[arg-type]


def in_words(path: str) -> str:
    """Return the name of a path in reports."""
    return _WORDS.get(path, path)


_WORDS = {
    paths.WRITE: "writes at the end",
    paths.OVERWRITE: "writes over data",
    paths.READ: "reads, cached",
    paths.COLD_READ: "reads, in order",
    paths.SCATTERED_READ: "reads, scattered",
    paths.DIRECT_READ: "direct reads",
    paths.DIRECT_WRITE: "direct writes",
    paths.SYNC: "fsync",
    paths.OPENING: "open and close",
    paths.CREATING: "new files",
    paths.CALL: "other calls",
    paths.COPY: "copies by the kernel",
    paths.QUEUED: "libaio, io_uring",
    paths.OTHER: "mmap, truncate, ...",
}
