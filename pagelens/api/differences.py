"""Compares two results."""

import os
from pathlib import Path

from pagelens.accesses.trace import TraceWorkload
from pagelens.diff import DEFAULT_THRESHOLD, Difference, Result, compare
from pagelens.explain import Explanation

Comparable = str | os.PathLike[str] | Explanation | TraceWorkload


def diff(a: Comparable, b: Comparable, *, threshold: float = DEFAULT_THRESHOLD) -> Difference:
    """Compare two explanations, two measurements or two traces, B with A.

    Each is what `explain`, `trace` or `record` returned, or the path of what a command wrote: its folder, its
    JSON file, or a trace. `threshold` is the share below which a change is neither worse nor better.

    `sentences` is the answer in words; `tables` has the figures by policy, mechanism and object, with the
    ratio B / A and its 95% interval; `settings` lists what was not the same. `slower` is whether anything is
    worse in B beyond chance and the threshold. Raises UsageError for results of two kinds.

    >>> diff("tests/data/explanation-4.json", "tests/data/explanation-4.json").slower
    False
    """
    return compare(_result(a), _result(b), threshold)


def _result(given: Comparable) -> Result:
    return given if isinstance(given, Explanation | TraceWorkload) else Path(given)
