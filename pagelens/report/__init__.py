"""The common parts of reports: the style of HTML pages and figures, the width of text, and short names."""

from pagelens.report.columns import WIDTH, terminal_width
from pagelens.report.short_names import shorten, shorten_middle, shorten_object, shorten_objects

__all__ = ["WIDTH", "shorten", "shorten_middle", "shorten_object", "shorten_objects", "terminal_width"]
