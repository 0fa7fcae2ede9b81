"""Explanation: statistics, attribution, remedies, and their renderings.

`explain` makes an `Explanation` of an ensemble; `terminal.render_terminal` and `html.render_html` show it
(the report is not imported here: its figures take a second to import).
"""

from pagelens.explain.analysis import explain
from pagelens.explain.model import Explanation, TimedRecord
from pagelens.explain.timed import time_beside

__all__ = ["Explanation", "TimedRecord", "explain", "time_beside"]
