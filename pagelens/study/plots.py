"""How each figure of a study is drawn."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from pagelens.report.drawing import BASELINE, FAINT, INK, OTHERS, WIDTH, ShownFigure
from pagelens.study.effects import Effect, answers
from pagelens.study.result import POINT, StudyResult
from pagelens.study.words import answer_in_words, shown_answer
from pagelens.units import format_time

MOST_PANELS = 12
CHARACTER_IN = 0.07  # of a figure's text, on average
AXES_IN = 5.0  # between the names on the left and the edge
COLUMNS = 3  # of panels


def tornado(found: StudyResult, effects: Sequence[Effect]) -> Figure:
    """Draw a bar for each input, from its least to its largest mean; the widest comes first."""
    figure = ShownFigure((WIDTH, 0.9 + 0.42 * len(effects)), layout="constrained")
    axes = figure.add_subplot()
    middle = float(answers(found)["answer"].to_numpy().mean())
    for row, effect in enumerate(effects):
        y = len(effects) - 1 - row
        axes.barh(y, effect.high - effect.low, left=effect.low, height=0.55, color=OTHERS[0], linewidth=0)
        at_low, at_high = (effect.levels[effect.means.index(end)] for end in (effect.low, effect.high))
        if effect.high > effect.low:
            beside: dict[str, Any] = {"textcoords": "offset points", "va": "center"}
            axes.annotate(at_low, (effect.low, y), (-4, 0), ha="right", **beside)
            axes.annotate(at_high, (effect.high, y), (4, 0), **beside)
    axes.axvline(middle, color=INK, linewidth=0.8)
    axes.set_yticks(
        range(len(effects)), [f"{each.name}\n{each.share:.0%} of variance" for each in reversed(effects)]
    )
    axes.tick_params("y", length=0)
    axes.spines["left"].set_visible(False)
    # Values stand beside the bars' ends: the longest, and so the widest margin, needs this many inches.
    beside_in = 0.15 + CHARACTER_IN * max(len(level) for effect in effects for level in effect.levels)
    axes.use_sticky_edges = False
    axes.margins(x=min(1.0, beside_in / max(1.0, AXES_IN - 2 * beside_in)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: shown_answer(found, value)))
    axes.set_xlabel(f"{answer_in_words(found)}, mean over the other inputs")
    return figure


def heat_map(found: StudyResult, rows: str, columns: str) -> Figure:
    """Draw the answer over two inputs: a cell for each point, with its figure."""
    by_point = dict(answers(found).iter_rows())
    levels = [list(dict.fromkeys(str(each[name]) for each in found.values)) for name in (rows, columns)]
    cells = np.full((len(levels[0]), len(levels[1])), np.nan)
    for number, answer in by_point.items():
        values = found.values[number]
        cells[levels[0].index(str(values[rows])), levels[1].index(str(values[columns]))] = answer
    figure = ShownFigure((WIDTH, 1.2 + 0.42 * len(levels[0])), layout="constrained")
    axes = figure.add_subplot()
    image = axes.pcolormesh(cells, cmap="cividis", edgecolors="white", linewidth=1)
    low, high = np.nanmin(cells), np.nanmax(cells)
    for (row, column), value in np.ndenumerate(cells):
        dark = high == low or (value - low) / (high - low) < 0.55
        text = "" if np.isnan(value) else shown_answer(found, float(value))
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color="white" if dark else INK)
    axes.set_xticks(np.arange(len(levels[1])) + 0.5, levels[1])
    axes.set_yticks(np.arange(len(levels[0])) + 0.5, levels[0])
    axes.tick_params(length=0)
    axes.set_xlabel(columns)
    axes.set_ylabel(rows)
    bar = figure.colorbar(image, ax=axes, format=FuncFormatter(lambda value, _: shown_answer(found, value)))
    bar.outline.set_visible(False)
    bar.set_label(answer_in_words(found))
    return figure


def small_multiples(found: StudyResult, x: str, others: Sequence[str]) -> Figure:
    """Draw median times over one input: a line for each policy, a panel for each value of the others."""
    table = found.table
    levels = [table[name].unique(maintain_order=True).to_list() for name in others]
    panels = list(itertools.product(*levels))[:MOST_PANELS]
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = ShownFigure((WIDTH, 0.6 + 1.9 * rows), layout="constrained")
    all_axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    labels = _labels(found, x)
    for axes, panel in itertools.zip_longest(all_axes, panels):
        if panel is None:
            axes.set_visible(False)
            continue
        part = table
        for name, value in zip(others, panel, strict=True):
            part = part.filter(pl.col(name) == value)
        _lines(axes, found, part, x, labels)
        axes.set_title(
            "\n".join(f"{name} = {_label(found, name, v)}" for name, v in zip(others, panel, strict=True)),
            fontsize=8,
        )
    for axes in all_axes[: (rows - 1) * columns] if rows > 1 else []:
        axes.tick_params("x", labelbottom=False)
    all_axes[0].set_ylim(bottom=0)  # of all panels; before the last is drawn, this would cut its lines off
    figure.supxlabel(x, fontsize=8.5)
    figure.supylabel("median time (modelled)", fontsize=8.5)
    handles, names = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=4, frameon=False)
    return figure


def scatters(found: StudyResult, names: Sequence[str]) -> Figure:
    """Draw the answer over each input of a sample, a panel for each."""
    by_point = answers(found)
    once = found.table.unique(POINT, keep="first", maintain_order=True).join(by_point, on=POINT)
    shown = names[:MOST_PANELS]
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    figure = ShownFigure((WIDTH, 0.4 + 1.9 * rows), layout="constrained")
    all_axes = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes, name in itertools.zip_longest(all_axes, shown):
        if name is None:
            axes.set_visible(False)
            continue
        labels = _labels(found, name)
        places = once[name].to_list() if labels is None else [labels[each] for each in once[name].to_list()]
        axes.plot(places, once["answer"].to_list(), "o", color=OTHERS[0], markersize=3, markeredgewidth=0)
        _ticks(axes, found, name, labels)
        axes.set_xlabel(name)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown_answer(found, value)))
    figure.supylabel(answer_in_words(found), fontsize=8.5)
    return figure


def _lines(
    axes: Axes, found: StudyResult, part: pl.DataFrame, x: str, labels: dict[object, int] | None
) -> None:
    colours = dict(zip(_others(found), itertools.cycle(OTHERS), strict=False)) | {found.baseline: BASELINE}
    for policy in found.table["policy"].unique(maintain_order=True):
        of = part.filter(pl.col("policy") == policy)
        if labels is None:
            of = of.sort(x)
        places = of[x].to_list() if labels is None else [labels[each] for each in of[x].to_list()]
        axes.plot(places, of["median_s"].to_list(), "o-", color=colours[policy], markersize=3, linewidth=1,
                  label=policy)  # fmt: skip
        axes.fill_between(places, of["median_low_s"].to_list(), of["median_high_s"].to_list(),
                          color=colours[policy], alpha=0.2, linewidth=0)  # fmt: skip
    _ticks(axes, found, x, labels)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_time(value)))
    axes.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.5)


def _others(found: StudyResult) -> list[str]:
    names = found.table["policy"].unique(maintain_order=True).to_list()
    return [name for name in names if name != found.baseline]


def _labels(found: StudyResult, name: str) -> dict[object, int] | None:
    """Return places for the values of an input that is no number; None for numbers, which have one."""
    if found.table[name].dtype.is_numeric():
        return None
    return {value: place for place, value in enumerate(found.table[name].unique(maintain_order=True))}


def _label(found: StudyResult, name: str, value: object) -> str:
    """Return the value as the file states it."""
    at = found.table.filter(pl.col(name) == value)[POINT][0]
    return str(found.values[at][name])


def _ticks(axes: Axes, found: StudyResult, name: str, labels: dict[object, int] | None) -> None:
    if labels is not None:
        axes.set_xticks(list(labels.values()), [str(each) for each in labels], rotation=20, ha="right")
        return
    values = found.table[name].unique().sort().to_list()
    if len(values) <= 4:
        axes.set_xticks(values, [_label(found, name, value) for value in values])
    else:
        first = str(found.values[0][name])
        if not first.replace(".", "").isdigit():
            ends = [values[0], values[len(values) // 2], values[-1]]
            axes.set_xticks(ends, [_label(found, name, value) for value in ends])
