"""The common parts of reports: the style of HTML pages and figures, and the width of text."""

from pagelens.report.columns import WIDTH, terminal_width

__all__ = ["WIDTH", "terminal_width"]
