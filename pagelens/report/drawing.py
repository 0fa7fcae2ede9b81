"""Draws the figures of pages in one style, as SVG text that can stand inside HTML.

These are vector graphics without scripts. Text is drawn as outlines, so a figure looks the same everywhere.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe, Ito: Color Universal Design, 2008. The baseline is always vermilion.
BASELINE = "#D55E00"
OTHERS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
INK, FAINT = "#222222", "#8A8A8A"
WIDTH = 7.2  # inches, of every figure: so their text has one size on a page

STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is there everywhere
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.7,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "hatch.linewidth": 0.8,
    "savefig.dpi": 200,  # of what is rasterised: dots by the thousand
    "svg.fonttype": "path",
    "svg.hashsalt": "pagelens",
}


class ShownFigure(Figure):
    """A matplotlib Figure that notebooks show without further ado."""

    def _repr_svg_(self) -> str:
        out = io.StringIO()
        with mpl.rc_context(STYLE):
            self.savefig(out, format="svg")
        return out.getvalue()


@dataclass(frozen=True)
class Drawing:
    """One figure of a page."""

    key: str
    title: str
    caption: str
    svg: str


def drawing(key: str, title: str, caption: str, draw: Callable[[], Figure]) -> Drawing:
    """Draw a figure. `draw` is called with the style in force. Equal figures give equal bytes."""
    out = io.StringIO()
    with mpl.rc_context(STYLE):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        draw().savefig(out, format="svg", metadata=nothing)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]  # no XML declaration or document type inside HTML
    # All figures share one page, so the names inside each figure are made unique.
    svg = svg.replace('id="', f'id="{key}-').replace('"#', f'"#{key}-').replace("url(#", f"url(#{key}-")
    return Drawing(key, title, caption, svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1))
