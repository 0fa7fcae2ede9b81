"""Draws a measurement: distributions over page maps, or medians over a sweep."""

import numpy as np
from matplotlib.figure import Figure

from pagelens.measure.results import Measured, Result
from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, Drawing, drawing

_COLOURS = (OTHERS[0], BASELINE, *OTHERS[1:])
_FEWEST_SWEPT = 4  # points that make a line
_LOGARITHMIC = 20  # a larger range of figures has an axis of powers of ten


def draw(m: Measured) -> Drawing:
    """Return the figure. Dots are trials. A sweep shows medians, with a band from p5 to p95."""
    sweep = bool(m.plan.along) and len(m.plan.points) >= _FEWEST_SWEPT
    caption = (
        "Lines: medians over page maps; shaded: p5 to p95."
        if sweep
        else ("A dot a trial, each on a page map of its own; bars: p5 to p95; white: median.")
    )
    return drawing("measure", m.plan.title, f"{caption} Measured.", lambda: (_sweep if sweep else _dots)(m))


def _dots(m: Measured) -> Figure:
    figure = Figure((WIDTH, 0.7 + 0.38 * len(m.results)), layout="constrained")
    axes = figure.add_subplot()
    scatter = np.random.default_rng(0)  # the dots' heights, for looks only
    results = sorted(m.results, key=lambda r: m.plan.points.index(r.point))  # page sizes side by side
    for row, r in enumerate(results):
        y, colour = len(m.results) - 1 - row, _COLOURS[m.pages.index(r.page) % len(_COLOURS)]
        values, s = np.array(r.values), r.summary.spread
        axes.plot(values, y + 0.3 * (scatter.random(values.size) - 0.5), "o", color=colour, markersize=3,
                  markeredgewidth=0, alpha=0.6)  # fmt: skip
        axes.plot([s.p5, s.p95], [y, y], color=colour, linewidth=2.5, solid_capstyle="butt")
        axes.plot([s.median], [y], "o", color="white", markeredgecolor=colour, markersize=4.5)
    many = len(m.pages) > 1
    names = [f"{_name(r)}, {r.page.name}" if many else _name(r) for r in results]
    axes.set_yticks(range(len(names)), names[::-1])
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{m.plan.unit} (measured)")
    axes.grid(axis="x", color=FAINT, linewidth=0.3)
    return figure


def _sweep(m: Measured) -> Figure:
    along = m.plan.along
    figure = Figure((WIDTH, 3.2), layout="constrained")
    axes = figure.add_subplot()
    series: dict[tuple[str, str], list[Result]] = {}
    for r in m.results:
        rest = " ".join(str(value) for key, value in r.point.labels.items() if key != along)
        series.setdefault((rest, r.page.name), []).append(r)
    for number, ((rest, page), of_series) in enumerate(series.items()):
        x = np.arange(len(of_series))
        labels = [of.point.labels[along] for of in of_series]
        if all(isinstance(label, int) for label in labels):
            x = np.array(labels)
        else:
            step = max(1, len(labels) // 12)
            axes.set_xticks(x[::step], [str(label) for label in labels[::step]], rotation=30, ha="right")
        spreads = [of.summary.spread for of in of_series]
        colour = _COLOURS[number % len(_COLOURS)]
        axes.fill_between(x, [s.p5 for s in spreads], [s.p95 for s in spreads], color=colour, alpha=0.2,
                          linewidth=0)  # fmt: skip
        label = " ".join(part for part in (rest, page if len(m.pages) > 1 else "") if part)
        axes.plot(x, [s.median for s in spreads], color=colour, linewidth=1.2, label=label or None)
    axes.set_xlabel(along)
    axes.set_ylabel(f"{m.plan.unit} (measured)")
    figures = [value for r in m.results for value in (r.summary.spread.p5, r.summary.spread.p95)]
    if max(figures) > _LOGARITHMIC * min(figures):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if len(series) > 1:
        axes.legend(frameon=False)
    return figure


def _name(r: Result) -> str:
    return " ".join(str(value) for value in r.point.labels.values())
