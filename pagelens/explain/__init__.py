"""Explanation: statistics, attribution, remedies, and their renderings.

`explain` makes an `Explanation` of an ensemble; `terminal.render_terminal` and `html.render_html` show it
(the report is not imported here: its figures take a second to import).
"""

from pagelens.explain.analysis import explain
from pagelens.explain.job_cost import job_cost, job_cost_in_words
from pagelens.explain.model import Explanation, JobCostRecord, TimedRecord
from pagelens.explain.timed import time_beside
from pagelens.explain.words import RESOURCES_IN_WORDS, few_nodes_note, large_page_note

__all__ = [
    "RESOURCES_IN_WORDS",
    "Explanation",
    "JobCostRecord",
    "TimedRecord",
    "explain",
    "few_nodes_note",
    "job_cost",
    "job_cost_in_words",
    "large_page_note",
    "time_beside",
]
