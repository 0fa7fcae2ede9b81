"""What the machine that pagelens runs on is, as a machine file."""

from pagelens.machine.detect.describe import Description, detect
from pagelens.machine.detect.system import System

__all__ = ["Description", "System", "detect"]
