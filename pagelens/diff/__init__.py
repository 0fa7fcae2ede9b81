"""Says what changed between two explanations, measurements or traces, beyond chance."""

from pagelens.diff.compare import DEFAULT_THRESHOLD, Result, compare
from pagelens.diff.model import Difference, Row, Setting, Table

__all__ = ["DEFAULT_THRESHOLD", "Difference", "Result", "Row", "Setting", "Table", "compare"]
