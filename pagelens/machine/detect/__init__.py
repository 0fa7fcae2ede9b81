"""Describes the machine that pagelens runs on as a machine file."""

from pagelens.host.system import System
from pagelens.machine.detect.describe import Description, detect

__all__ = ["Description", "System", "detect"]
