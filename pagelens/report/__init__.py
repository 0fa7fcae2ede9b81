"""What reports share: the style of HTML pages and figures, and how wide text is."""

from pagelens.report.columns import WIDTH, terminal_width

__all__ = ["WIDTH", "terminal_width"]
