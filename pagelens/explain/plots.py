"""Draws each figure, with labels at what they name, and colours that colour-blind readers tell apart."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from pagelens.explain.model import Explanation
from pagelens.explain.verdict import MATTERS
from pagelens.replay.mechanisms import MECHANISMS
from pagelens.report import shorten_objects
from pagelens.report.drawing import BASELINE, FAINT, INK, OTHERS, WIDTH, ShownFigure
from pagelens.units import format_share, format_time

HIT, MISS = "#9CC9E8", "#D55E00"
UNBURDENED = "#BBBBBB"
KEY_COLUMNS = 4
MOST_OBJECTS = 10
MOST_LETTERS = 36  # of an object's name
MOST_ASSUMPTIONS = 12

Floats = NDArray[np.float64]


def distribution(e: Explanation) -> Figure:
    """Draw one ridge for each policy, with density, nodes, percentiles and median."""
    rows, unit = len(e.distributions), e.best.time_s
    figure, axes = _rows(rows, 0.62, [d.policy for d in e.distributions])
    off_scale = e.off_scale()
    worst = max(d.worst_s for d in e.distributions if d.policy not in off_scale) / unit
    margin = 0.03 * max(worst - 1, 0.02)
    low, high = 1 - margin, max(worst, 1.02) + margin
    for slower in (1.1, 1.2):
        if slower < high:
            axes.axvline(slower, color=FAINT, linewidth=0.7, linestyle=(0, (4, 3)), zorder=0)
    grid = np.linspace(low, high, 800)
    scatter = np.random.default_rng(0)  # the dots' heights, for looks only
    for row, d in enumerate(e.distributions):
        y = rows - 1 - row
        colour = _colours(e)[d.policy]
        modes = f", {d.modes} modes" if d.modes > 1 else ""
        _beside(axes, y, f"median {d.median_s / unit:.2f}{modes}", colour)
        if d.policy in off_scale:
            axes.plot([high], [y], ">", color=colour, markersize=6, clip_on=False)
            continue
        times = np.asarray(d.times_s) / unit
        ridge = y + 0.05 + 0.6 * _density(times, grid)
        seen = ridge > y + 0.053
        axes.fill_between(grid, y + 0.05, ridge, where=seen, color=colour, alpha=0.3, linewidth=0)
        axes.plot(grid, np.where(seen, ridge, np.nan), color=colour, linewidth=0.9)
        axes.plot(times, y - 0.10 - 0.14 * scatter.random(times.size), "o", color=colour, markersize=2.4,
                  markeredgewidth=0, alpha=0.55)  # fmt: skip
        axes.plot([d.p5_s / unit, d.p95_s / unit], [y, y], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot([d.median_s / unit], [y], "o", color="white", markeredgecolor=colour, markersize=4.5)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(low, high)
    axes.set_ylim(-0.4, rows - 0.25)
    axes.set_xlabel("run time relative to the best run (modelled)")
    return figure


def misses(e: Explanation) -> Figure:
    """Draw misses against performance, with one dot for each node and policy."""
    figure = ShownFigure((WIDTH, 3.4), layout="constrained")
    axes = figure.add_subplot()
    colours = _colours(e)
    shown = [d for d in e.distributions if d.policy not in e.off_scale()]
    unit, lines = _lines(max(max(d.misses) for d in shown))
    labels = []
    for d in shown:
        x, y = np.asarray(d.misses) / unit, e.best.time_s / np.asarray(d.times_s)
        axes.plot(x, y, "o", color=colours[d.policy], markersize=4, markeredgewidth=0.3,
                  markeredgecolor="white", alpha=0.75)  # fmt: skip
        middle = int(np.argsort(y, kind="stable")[len(y) // 2])
        labels.append((float(y[middle]), float(x[middle]), d.policy))
    axes.set_xlabel(f"misses of the memory-side cache ({lines}, counted)")
    axes.set_ylabel("performance against the best run (modelled)")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    right = max(axes.get_xlim()[1], 1e-12)
    axes.set_xlim(0, right)
    axes.set_ylim(0, 1.05)
    # Names stand to the right. They are pushed apart if clusters lie together, and tied to their medians.
    height = 2.0
    for y_middle, x_middle, policy in sorted(labels, reverse=True):
        height = min(y_middle, height - 0.07)
        axes.annotate(
            policy,
            (x_middle, y_middle),
            xytext=(right * 1.03, height),
            va="center",
            color=colours[policy],
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colours[policy], "linewidth": 0.5, "alpha": 0.6},
        )
    return figure


def attribution(e: Explanation) -> Figure:
    """Draw a stacked bar for each policy. Negative parts are taken off from the right."""
    means = [a for a in e.attributions if a.nodes == "mean"]
    colours = {"compulsory misses only": UNBURDENED}
    colours |= {
        part.mechanism: MECHANISMS[part.mechanism].colour
        for a in means
        for part in a.parts
        if abs(part.seconds) > 0.001 * a.time_s
    }
    lines = -(-len(colours) // KEY_COLUMNS)
    figure, axes = _rows(len(means), 0.4, [a.policy for a in means], head=0.05 + 0.2 * lines)
    off_scale = e.off_scale()
    longest = max(a.time_s for a in means if a.policy not in off_scale)
    for row, a in enumerate(means):
        y, end = len(means) - 1 - row, 0.0
        seconds = {"compulsory misses only": a.unburdened_s}
        seconds |= {part.mechanism: part.seconds for part in a.parts if part.mechanism in colours}
        for name, part in sorted(seconds.items(), key=lambda of: of[1] < 0):
            if part >= 0:
                axes.barh(y, part, left=end, height=0.62, color=colours[name], linewidth=0)
            else:
                axes.barh(y, part, left=end, height=0.62, facecolor="white", edgecolor=colours[name],
                          hatch="////", linewidth=0.8)  # fmt: skip
            if abs(part) > 0.06 * longest and end + part < 1.1 * longest:
                share = f"{100 * part / a.time_s:.0f}%"
                axes.text(end + part / 2, y, share, ha="center", va="center", fontsize=7.5)
            end += part
        if a.policy in off_scale:
            axes.plot([1.1 * longest], [y], ">", color=INK, markersize=6, clip_on=False)
        axes.plot([a.time_s] * 2, [y - 0.38, y + 0.38], color=INK, linewidth=1.6)
        _beside(axes, y, format_time(a.time_s), INK)
    scale, unit = (1.0, "s") if longest >= 1 else (1e3, "ms")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{scale * seconds:g}"))
    axes.set_xlabel(f"time ({unit}, modelled)")
    axes.set_xlim(0, 1.1 * longest)
    _key(axes, colours)
    return figure


def objects(e: Explanation) -> Figure:
    """Draw the lines of each object. Those that missed come first."""
    every = [o for o in e.objects if o.policy == e.baseline and o.accesses > 0]
    shown = [(o.name, o.accesses, o.misses) for o in every[:MOST_OBJECTS]]
    if rest := every[MOST_OBJECTS:]:
        shown.append((f"{len(rest)} more", sum(o.accesses for o in rest), sum(o.misses for o in rest)))
    names = shorten_objects([name for name, _, _ in shown], MOST_LETTERS)
    figure, axes = _rows(len(shown), 0.3, names, head=0.25)
    unit, lines = _lines(max(accesses for _, accesses, _ in shown))
    cached = e.machine.served_by == "memory-side cache"
    for row, (_, accesses, missed) in enumerate(shown):
        y = len(shown) - 1 - row
        axes.barh(y, missed / unit, height=0.66, color=MISS, linewidth=0)
        axes.barh(y, (accesses - missed) / unit, left=missed / unit, height=0.66, color=HIT, linewidth=0)
        axes.annotate(format_share(missed / accesses) if cached else "", (accesses / unit, y), xytext=(4, 0),
                      textcoords="offset points", va="center", fontsize=7.5)  # fmt: skip
    axes.set_xlabel(f"{lines} that reach the {e.machine.served_by} (counted)")
    axes.set_xlim(0, 1.08 * max(accesses for _, accesses, _ in shown) / unit)
    if cached:
        _key(axes, {"missed": MISS, "hit": HIT})
    return figure


def slots(e: Explanation) -> Figure:
    """Draw the cache's slots as one map for each policy, all on one scale."""
    columns = min(3, len(e.slot_maps))
    rows = -(-len(e.slot_maps) // columns)
    figure = ShownFigure((WIDTH, 1.7 * rows + 0.3), layout="constrained")
    panels: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).ravel())
    off_scale = e.off_scale()
    highest = max([1.0, *(max(m.pages_per_slot) for m in e.slot_maps if m.policy not in off_scale)])
    image = None
    for axes, m in zip(panels, e.slot_maps, strict=False):
        cells = np.asarray(m.pages_per_slot)
        width = 1 << (cells.size.bit_length() // 2)  # wider than high by 1 to 2
        grid = np.full(-(-cells.size // width) * width, np.nan)
        grid[: cells.size] = cells
        image = axes.imshow(grid.reshape(-1, width), cmap="cividis", vmin=0, vmax=highest, aspect="auto",
                            interpolation="nearest")  # fmt: skip
        axes.set_title(f"{m.policy}: {100 * m.conflict_share:.0f}%", fontsize=8.5, loc="left")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
    for axes in panels[len(e.slot_maps) :]:
        axes.set_visible(False)
    if image is not None:
        bar = figure.colorbar(
            image, ax=panels, shrink=0.9, aspect=30, extend="max" if off_scale else "neither"
        )
        bar.set_label("pages of the job a slot (counted)")
        bar.locator = MaxNLocator(5)
        bar.update_ticks()
    return figure


def remedies(e: Explanation) -> Figure:
    """Draw the gain at the median with its interval, and at the 95th percentile."""
    figure, axes = _rows(len(e.remedies), 0.36, [r.policy for r in e.remedies])
    for row, r in enumerate(e.remedies):
        y = len(e.remedies) - 1 - row
        colour = _colours(e)[r.policy]
        axes.plot([r.gain_median_low, r.gain_median_high], [y, y], color=colour, linewidth=1.6)
        axes.plot([r.gain_p95], [y], "o", color="white", markeredgecolor=colour, markersize=6)
        axes.plot([r.gain_median], [y], "o", color=colour, markersize=6)
        root = "needs root" if r.root else "no root"
        _beside(axes, y, f"{r.gain_median:.2f}x, {root}", colour)
    axes.axvline(1, color=INK, linewidth=0.7, zorder=0)
    axes.set_ylim(-0.6, len(e.remedies) - 0.4)
    axes.margins(x=0.06)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.95), max(high, 1.1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}x"))
    axes.set_xlabel(f"speed against '{e.baseline}' (modelled)")
    return figure


def assumptions(e: Explanation) -> Figure:
    """Draw a bar for each assumed value, from the gain at one end of its range to that at the other."""
    shown = sorted(e.assumptions, key=lambda of: -abs(of.gain_to - of.gain_from))[:MOST_ASSUMPTIONS]
    figure, axes = _rows(len(shown), 0.36, [of.name for of in shown])
    axes.axvline(MATTERS, color=FAINT, linewidth=0.7, linestyle=(0, (4, 3)))
    axes.axvline(shown[0].gain_as_it_is, color=INK, linewidth=0.8)
    for row, of in enumerate(shown):
        y = len(shown) - 1 - row
        ends = sorted([(of.gain_from, of.tried_from), (of.gain_to, of.tried_to)])
        colour = BASELINE if of.below or of.above else OTHERS[0]
        axes.barh(y, ends[1][0] - ends[0][0], left=ends[0][0], height=0.5, color=colour, linewidth=0)
        for (gain, value), side in zip(ends, ("right", "left"), strict=True):
            axes.annotate(value, (gain, y), (-4 if side == "right" else 4, 0), ha=side, va="center",
                          textcoords="offset points", fontsize=7.5)  # fmt: skip
    axes.use_sticky_edges = False
    axes.margins(x=0.25)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.4g}x"))
    axes.set_xlabel(f"gain over '{e.baseline}' (modelled)")
    return figure


def _rows(count: int, height: float, names: list[str], head: float = 0.0) -> tuple[Figure, Axes]:
    """Return a figure of `count` named rows, the first at the top, `height` inches each."""
    figure = ShownFigure((WIDTH, height * count + head + 0.65), layout="constrained")
    axes = figure.add_subplot()
    axes.set_yticks(range(count), names[::-1])
    axes.tick_params(axis="y", length=0)
    return figure, axes


def _beside(axes: Axes, y: float, text: str, colour: str) -> None:
    """Write text to the right of the axes, at the height of a row."""
    place = ("axes fraction", "data")
    axes.annotate(text, (1.01, y), xycoords=place, va="center", color=colour, fontsize=8)


def _key(axes: Axes, colours: Mapping[str, str]) -> None:
    """Draw the names of the colours above the axes, in lines of KEY_COLUMNS."""
    handles = [axes.barh([0], [0], color=colour, linewidth=0) for colour in colours.values()]
    axes.legend(handles, list(colours), loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=KEY_COLUMNS,
                frameon=False, handlelength=0.9, handleheight=0.9, columnspacing=1.6, handletextpad=0.5,
                borderpad=0.2)  # fmt: skip


def _colours(e: Explanation) -> dict[str, str]:
    others = [d.policy for d in e.distributions if d.policy != e.baseline]
    return {e.baseline: BASELINE} | {policy: OTHERS[i % len(OTHERS)] for i, policy in enumerate(others)}


def _density(values: Floats, grid: Floats) -> Floats:
    """Return a Gaussian kernel density with its peak at 1.

    The bandwidth follows Silverman's rule, within 0.3% to 2% of the axis. The rule alone would smooth over
    separate groups, which the figure has to show.
    """
    low, high = np.quantile(values, [0.25, 0.75])
    scale = min(values.std(), (high - low) / 1.34) if high > low else values.std()
    axis = grid[-1] - grid[0]
    width = np.clip(0.9 * scale * values.size**-0.2, 0.003 * axis, 0.02 * axis)
    density = np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2).sum(axis=1)
    return np.asarray(density / density.max(), dtype=np.float64)


def _lines(most: float) -> tuple[float, str]:
    """Return a unit for counts of lines, and its name."""
    if most >= 1e9:
        return 1e9, "10⁹ lines"
    return (1e6, "10⁶ lines") if most >= 1e6 else (1.0, "lines")
