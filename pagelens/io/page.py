"""Makes the page of `pagelens io explain`: operations over time, their sizes, and waits by file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pagelens.io.classify import classify
from pagelens.io.explanation import Explanation, in_words
from pagelens.io.recording import Recording
from pagelens.io.turns import waits_of_threads
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, Drawing, drawing
from pagelens.report.page import page_template
from pagelens.units import format_binary_size, format_share, format_size, format_time

_MOST_DOTS = 20_000
_MOST_FILES = 8
_BAR, _LEGEND_LINE = 0.28, 0.17  # inches
_NAME_LETTERS = 28
_PROGRAM_LETTERS = 16
_MOST_THREADS = 12
_MOST_LABELS = 10  # of an axis, or one more
_TITLE_LETTERS = 100
_MOST_PAIRS = 12  # of threads


def render_page(e: Explanation, recording: Recording, conclusion: Sequence[str]) -> str:
    """Return the page's text. Equal explanations give equal text."""
    frame = classify(recording)
    stalls = " Stalls of the host count as processor time here." if e.stalls else ""
    drawings = [_over_time(frame), _sizes(frame, stalls), _waits(frame, recording)] if frame.height else []
    template = page_template(
        "pagelens.io",
        "page.html.j2",
        {
            "seconds": format_time,
            "size": format_size,
            "percent": format_share,
            "words": in_words,
            "code": _with_code,
        },
    )
    command = " ".join(e.facts.command)
    title = command if len(command) <= _TITLE_LETTERS else f"{command[: _TITLE_LETTERS - 3]}..."
    pairs = list(_pairs(frame, recording)) if frame.height else []
    return template.render(
        e=e, conclusion=conclusion, drawings=drawings, command=command, title=title, pairs=pairs
    )


def _with_code(text: str) -> Markup:
    """Return a text in which what stands between backticks is code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _over_time(frame: pl.DataFrame) -> Drawing:
    step = max(1, frame.height // _MOST_DOTS)

    def draw() -> Figure:
        figure = Figure((WIDTH, 2.8), layout="constrained")
        axes = figure.add_subplot()
        shown = frame.gather_every(step)
        for number, path in enumerate(sorted(set(shown["path"].to_list()))):
            of = shown.filter(pl.col("path") == path)
            axes.plot(of["start_ns"].to_numpy() / 1e9, np.maximum(of["wall_ns"].to_numpy() / 1e3, 0.1), ".",
                      color=_colour(number), markersize=2, label=in_words(path), rasterized=True)  # fmt: skip
        axes.set_yscale("log")
        axes.set_xlabel("seconds since the program began")
        axes.set_ylabel("wall time (us)")
        axes.legend(
            frameon=False, fontsize=7, ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0), markerscale=4
        )
        return figure

    caption = "Each dot is an operation." + (f" One in {step} is shown." if step > 1 else "")
    return drawing("io-time", "Operations over time", caption, draw)


def _sizes(frame: pl.DataFrame, stalls: str) -> Drawing:
    moved = frame.filter(pl.col("bytes") > 0).with_columns(
        bucket=pl.col("bytes").cast(pl.Float64).log(2).floor()
    )
    by = moved.group_by("bucket").agg(pl.len(), pl.col("cpu_ns", "waiting").sum()).sort("bucket")

    def draw() -> Figure:
        figure = Figure((WIDTH, 2.4), layout="constrained")
        axes = figure.add_subplot()
        at = by["bucket"].to_numpy()
        cpu, wait = by["cpu_ns"].to_numpy() / 1e9, by["waiting"].to_numpy() / 1e9
        axes.bar(at, cpu, color=OTHERS[0], label="processor")
        axes.bar(at, wait, bottom=cpu, color=BASELINE, label="waiting")
        for x, height, count in zip(at, cpu + wait, by["len"].to_list(), strict=True):
            axes.annotate(f"{count:,}", (x, height), ha="center", va="bottom", fontsize=7)
        ticks = _ticks(at)
        axes.set_xticks(ticks, [format_binary_size(2**each) for each in ticks], fontsize=7)
        axes.set_xlabel("size of an operation, from")
        axes.set_ylabel("seconds")
        if at.size:
            axes.set_xlim(at.min() - 2, at.max() + 2)  # a single bar is no wider than others
        axes.legend(frameon=False, fontsize=7, ncols=2, loc="lower left", bbox_to_anchor=(0, 1.0))
        return figure

    caption = f"Recorded time of all reads and writes; above, how many.{stalls}"
    return drawing("io-sizes", "Time by size", caption, draw)


def _waits(frame: pl.DataFrame, recording: Recording) -> Drawing:
    threads = (
        frame.group_by("process", "thread")
        .agg(pl.col("wall_ns").sum())
        .sort("wall_ns", "thread", descending=[True, False])
        .head(_MOST_THREADS)
    )
    files = (
        frame.group_by("file").agg(pl.col("wall_ns").sum()).sort("wall_ns", "file", descending=[True, False])
    )
    first = files.head(_MOST_FILES)["file"].to_list()

    def draw() -> Figure:
        room = max(_BAR * threads.height, _LEGEND_LINE * (len(first) + 1))
        figure = Figure((WIDTH, 0.9 + room), layout="constrained")
        axes = figure.add_subplot()
        left = np.zeros(threads.height)
        for number, file in enumerate([*first, None]):
            of = frame.filter(~pl.col("file").is_in(first) if file is None else pl.col("file") == file)
            total = threads.select("process", "thread").join(
                of.group_by("process", "thread").agg(pl.col("wall_ns").sum()), on=["process", "thread"],
                how="left", maintain_order="left",
            )  # fmt: skip
            seconds = total["wall_ns"].fill_null(0).to_numpy() / 1e9
            if seconds.sum() > 0:
                name = "other files" if file is None else _end(recording.header.files[file].path)
                axes.barh(np.arange(threads.height), seconds, left=left, color=_colour(number), label=name)
            left = left + seconds
        axes.set_yticks(np.arange(threads.height), _thread_names(threads, recording), fontsize=7)
        axes.set_ylim(room / _BAR - 0.5, -0.5)
        axes.set_xlabel("seconds in operations")
        axes.set_ylabel("thread")
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure

    return drawing(
        "io-waits",
        "Which thread spends its time on which file",
        "Recorded wall time of operations, by file.",
        draw,
    )


def _pairs(frame: pl.DataFrame, recording: Recording) -> Iterator[tuple[str, str, int, float]]:
    """Yield which thread waited for which other one, how often, and the seconds."""
    waits = waits_of_threads(frame)
    threads = pl.concat(
        [waits.select("process", "thread"), waits.select(process="for_process", thread="for_thread")]
    ).unique(maintain_order=True)
    names = dict(zip(threads.iter_rows(), _thread_names(threads, recording), strict=True))
    for process, thread, for_process, for_thread, count, wait_ns in waits.head(_MOST_PAIRS).iter_rows():
        yield names[process, thread], names[for_process, for_thread], count, wait_ns / 1e9
    if (rest := waits[_MOST_PAIRS:]).height:
        yield "other threads", "other threads", int(rest["count"].sum()), float(rest["wait_ns"].sum()) / 1e9


def _thread_names(threads: pl.DataFrame, recording: Recording) -> list[str]:
    """Return the rank of each thread's process, or else its program, each with the thread's number.

    The first thread of a rank goes without its number.
    """
    of = {each.process: each for each in recording.header.processes}
    names: list[str] = []
    for process, thread in threads.select("process", "thread").iter_rows():
        known = of.get(process)
        if known is not None and known.rank is not None:
            name = f"rank {known.rank}"
            names.append(f"{name}: {thread}" if name in names else name)
        else:
            program = Path(known.program).name[:_PROGRAM_LETTERS] if known is not None else ""
            names.append(f"{program} {thread}".strip())
    return names


def _end(path: str) -> str:
    """Return the end of a path, which tells files apart."""
    return path if len(path) <= _NAME_LETTERS else f"...{path[3 - _NAME_LETTERS :]}"


def _ticks(powers: NDArray[np.int64]) -> list[int]:
    """Return the powers of two that have a label: evenly spaced, and so few that labels do not overlap."""
    if not powers.size:
        return []
    first, last = int(powers.min()), int(powers.max())
    return list(range(first, last + 1, (last - first) // _MOST_LABELS + 1))


def _colour(number: int) -> str:
    palette = (OTHERS[0], BASELINE, *OTHERS[1:], "#999933", "#882255")
    return palette[number % len(palette)]
