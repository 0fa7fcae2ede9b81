"""Simulates copies of a workload on a machine, and what each placement of their pages costs."""

from pagelens.replay.assumed import is_of_time_model
from pagelens.replay.bounds import Bounds
from pagelens.replay.core_model import why_full_width
from pagelens.replay.exported_trace import FORMATS, write_lines, write_v2p
from pagelens.replay.mechanisms import MECHANISMS, Mechanism
from pagelens.replay.memory_side import left_out
from pagelens.replay.nearly_equal import Reference
from pagelens.replay.numa import far_objects
from pagelens.replay.physical_trace import page_table, physical_lines
from pagelens.replay.placement import Placement
from pagelens.replay.run import Attributed, Run, Sampling
from pagelens.replay.simulation import Simulation, asked_first

__all__ = [
    "FORMATS",
    "MECHANISMS",
    "Attributed",
    "Bounds",
    "Mechanism",
    "Placement",
    "Reference",
    "Run",
    "Sampling",
    "Simulation",
    "asked_first",
    "far_objects",
    "is_of_time_model",
    "left_out",
    "page_table",
    "physical_lines",
    "why_full_width",
    "write_lines",
    "write_v2p",
]
