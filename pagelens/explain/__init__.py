"""Explanation: statistics, attribution, remedies, and their renderings."""

from pagelens.explain.analysis import explain
from pagelens.explain.html import render_html
from pagelens.explain.model import Explanation
from pagelens.explain.terminal import render_terminal

__all__ = ["Explanation", "explain", "render_html", "render_terminal"]
