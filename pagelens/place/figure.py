"""Draws the sweep: what each policy gains over the amount of fast memory."""

import numpy as np
from matplotlib.figure import Figure

from pagelens.place.policies import DEVELOPER, OURS, TITLES
from pagelens.place.report import PlaceReport
from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, Drawing, drawing

_MARKS = ("s", "^", "D", "v", "P", "X")


def draw(report: PlaceReport) -> Drawing:
    """Return the figure.

    Lines are policies, and the band is fast memory as a cache, between its two nodes.
    """
    return drawing(
        "place",
        f"{report.program} on {report.machine}: what fast memory gains",
        "Share of the gain of all data in fast memory over all in slow memory. Modelled.",
        lambda: _figure(report),
    )


def _figure(r: PlaceReport) -> Figure:
    figure = Figure((WIDTH, 4.2), layout="constrained")
    axes = figure.add_subplot()
    others = [policy for policy in dict.fromkeys(row.policy for row in r.sweep) if policy != OURS]
    for policy, colour, mark in zip(others, OTHERS, _MARKS, strict=False):
        style = (0, (4, 2)) if policy == DEVELOPER else "solid"
        x, y = _line(r, policy)
        axes.plot(x, y, color=colour, marker=mark, markersize=3.2, linewidth=1.0, linestyle=style,
                  label=TITLES[policy])  # fmt: skip
    x, y = _line(r, OURS)
    axes.plot(x, y, color=BASELINE, marker="o", markersize=4, linewidth=1.8, label=TITLES[OURS])
    for number, cache in enumerate(sorted(r.cache_mode, key=lambda row: row.bytes)):
        at = 100 * cache.bytes / r.ranks / r.footprint_bytes
        if at > 105:
            continue
        gains = [100 * cache.gain_at_random, 100 * cache.gain_in_a_row]
        label = "as a cache, random frames to frames in a row" if number == 0 else None
        axes.plot([at, at], gains, color=FAINT, linewidth=4, solid_capstyle="butt", label=label)
    axes.axhline(100, color=FAINT, linewidth=0.6, linestyle=(0, (4, 3)))
    axes.set_title(
        f"{r.program} on {r.machine}: what fast memory gains (modelled)",
        fontsize=9,
        loc="left",
        parse_math=False,
    )
    axes.set_xlabel("fast memory, % of the footprint")
    axes.set_ylabel("% of the gain of all in fast memory")
    axes.set_xlim(0, 102)
    axes.set_ylim(bottom=min(0.0, float(np.min([row.gain for row in r.sweep], initial=0.0)) * 100))
    figure.legend(frameon=False, fontsize=7.5, loc="outside lower center", ncols=2)
    return figure


def _line(r: PlaceReport, policy: str) -> tuple[list[float], list[float]]:
    rows = [row for row in r.sweep if row.policy == policy]
    return [100 * row.capacity_bytes / r.footprint_bytes for row in rows], [100 * row.gain for row in rows]
