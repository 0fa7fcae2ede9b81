"""Writes the files of a measurement: JSON, tables of visits and frames as Parquet, and the figure."""

import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import pagelens
from pagelens.files import write_table, write_whole
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.machine.detect import System
from pagelens.measure.results import Measured, Result
from pagelens.measure.trials import Trial

SCHEMA_VERSION = 1  # of the JSON; a version only adds


def write_outputs(measured: Measured, text: str, directory: Path) -> None:
    """Write all files. Each is complete or as it was before. Raises Failure if they cannot be written."""
    from pagelens.measure.figure import draw  # matplotlib takes a second

    write_table(directory / "visits.parquet", visits_table(measured))
    write_table(directory / "frames.parquet", frames_table(measured.trials))
    write_whole(directory / "measure.json", lambda path: path.write_text(text + "\n"))
    svg = draw(measured).svg
    write_whole(directory / "figure.svg", lambda path: path.write_text(svg))


def to_json(measured: Measured, notes: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Return everything by name. Figures are in the plan's unit, times in seconds, sizes in bytes."""
    plan = measured.plan
    return {
        "schema": "pagelens measure",
        "version": SCHEMA_VERSION,
        "kernel": plan.name,
        "title": plan.title,
        "unit": plan.unit,
        "more_is_better": plan.rate,
        "counted": plan.counted,
        "memory_bytes": plan.memory_bytes,
        "settings": settings,
        "ran": plan.ran,
        "system": _system(),
        "interrupted": measured.interrupted,
        "machine": measured.machine.name if measured.machine is not None else None,
        "trials": [_trial(trial) for trial in measured.trials],
        "results": [_result(result) for result in measured.results],
        "notes": list(notes),
    }


def _system() -> dict[str, Any]:
    processor = System().fields("/proc/cpuinfo").get("model name", "")
    return {
        "pagelens": pagelens.__version__,
        "processor": processor,
        "kernel": platform.release(),
        "virtual_machine": in_virtual_machine(),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "page_size": trial.page.name,
        "frames_known": bool(trial.frames.size),
        "large_share": trial.large_share,
        "new_share": trial.new_share,
        "disturbed": trial.disturbed,
        "visits": [{"attempts": visit.attempts, **asdict(visit.load)} for visit in trial.visits],
    }


def _result(result: Result) -> dict[str, Any]:
    summary = result.summary
    return {
        "page_size": result.page.name,
        "point": result.point.labels,
        "values": list(result.values),
        "spread": asdict(summary.spread),
        "modes": summary.modes,
        "map_share": asdict(summary.map_share) if summary.map_share is not None else None,
        "outliers": [asdict(outlier) for outlier in result.outliers],
        "counters": dict(result.counters),
        "prediction": asdict(result.prediction) if result.prediction is not None else None,
    }


def visits_table(measured: Measured) -> pl.DataFrame:
    """Return a row for each repetition: its trial, visit and point, seconds and figure."""
    rows: list[dict[str, Any]] = []
    for trial in measured.trials:
        for number, visit in enumerate(trial.visits):
            for index, point in enumerate(measured.plan.points):
                seconds = visit.seconds[index]
                figures = measured.plan.figure(point.amount, seconds)
                rows += [
                    {
                        "trial": trial.number,
                        "page_size": trial.page.name,
                        "visit": number,
                        **{name: str(value) for name, value in point.labels.items()},
                        "repetition": repetition,
                        "seconds": float(seconds[repetition]),
                        "figure": float(figures[repetition]),
                        "disturbed": visit.load.disturbed,
                        **visit.counters[index],
                    }
                    for repetition in range(seconds.size)
                ]
    return pl.DataFrame(rows)


def frames_table(trials: Sequence[Trial]) -> pl.DataFrame:
    """Return a row for each run of neighbouring frames.

    It has the trial, the first 4 KiB page, the first frame and the number of pages.
    """
    parts = []
    for trial in trials:
        frames = trial.frames.astype(np.int64)
        begins = np.flatnonzero(np.diff(frames, prepend=-2) != 1)
        parts.append(
            pl.DataFrame(
                {
                    "trial": np.full(begins.size, trial.number),
                    "page_size": [trial.page.name] * begins.size,
                    "page": begins,
                    "frame": frames[begins],
                    "pages": np.diff(begins, append=frames.size),
                },
                schema=_FRAMES,
            )
        )
    return pl.concat(parts) if parts else pl.DataFrame(schema=_FRAMES)


_FRAMES = {"trial": pl.Int64, "page_size": pl.String, "page": pl.Int64, "frame": pl.Int64, "pages": pl.Int64}
