"""The figure of all claims: what was obtained over what was published."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, Drawing, drawing
from pagelens.reproduce.claim import NEAR, Kind, Row

KEY = "all-claims"
_SHOWN = {Kind.PREDICTED: BASELINE, Kind.DERIVED: OTHERS[0], Kind.SHOWN: OTHERS[1]}


def ratios(rows: Iterable[Row]) -> list[tuple[Row, float]]:
    """Return the rows with one number of the same name on both sides, and obtained over published."""
    found = []
    for row in rows:
        name = next(iter(row.obtained.numbers), "")
        published = row.published.numbers.get(name, 0.0)
        if row.kind in _SHOWN and published > 0 and row.obtained.numbers[name] > 0:
            found.append((row, row.obtained.numbers[name] / published))
    return found


def overview(rows: Iterable[Row]) -> Drawing:
    """Draw obtained over published for every claim that has both as numbers."""
    found = ratios(rows)
    return drawing(
        KEY,
        "Obtained over published, all claims with a figure",
        f"Each dot is a claim, in the order of the page. The band is within {NEAR:.0%}. A line is the range "
        "over other seeds and assumed inputs, if these were tried.",
        lambda: _figure(found),
    )


def _figure(found: list[tuple[Row, float]]) -> Figure:
    drawn = Figure((WIDTH, 2.6), layout="constrained")
    axes = drawn.add_subplot()
    axes.axhspan(1 - NEAR, 1 + NEAR, color=FAINT, alpha=0.25, linewidth=0)
    for kind, colour in _SHOWN.items():
        at = [number for number, (row, _) in enumerate(found) if row.kind is kind]
        axes.plot(at, [found[number][1] for number in at], "o", color=colour, markersize=4, label=kind.value)
    for number, (row, ratio) in enumerate(found):
        if row.tried is not None and row.tried.low > 0:
            scale = ratio / next(iter(row.obtained.numbers.values()))
            ends = [scale * row.tried.low, scale * row.tried.high]
            axes.plot([number, number], ends, color=BASELINE, linewidth=1)
    axes.set_yscale("log")
    axes.set_xlabel("claim")
    axes.set_ylabel("obtained over published")
    axes.legend(frameon=False, ncols=3)
    return drawn
