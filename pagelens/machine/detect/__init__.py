"""Describes the machine that pagelens runs on as a machine file."""

from pagelens.host.system import System
from pagelens.machine.detect.describe import Description, detect, detect_whole
from pagelens.machine.detect.nodes import with_measured_nodes

__all__ = ["Description", "System", "detect", "detect_whole", "with_measured_nodes"]
