"""Compares two results of the same kind."""

from pathlib import Path
from typing import Any

from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.diff.explanations import diff_explanations
from pagelens.diff.measurements import diff_measurements
from pagelens.diff.model import Difference
from pagelens.diff.saved import kind_of, read_explanation, read_measurement
from pagelens.diff.traces import diff_traces
from pagelens.errors import UsageError
from pagelens.explain import Explanation
from pagelens.spelling import printable

DEFAULT_THRESHOLD = 0.02

Result = Path | Explanation | TraceWorkload


def compare(a: Result, b: Result, threshold: float = DEFAULT_THRESHOLD) -> Difference:
    """Compare B with A. Raises UsageError if their kinds differ, or if one is no result."""
    (kind_a, name_a, of_a), (kind_b, name_b, of_b) = _found(a, "A"), _found(b, "B")
    if kind_a != kind_b:
        of_each = [f"an {kind}" if kind == "explanation" else f"a {kind}" for kind in (kind_b, kind_a)]
        raise UsageError(f"{name_b}: is {of_each[0]}, and {name_a} {of_each[1]}; compare two of one kind")
    names = name_a, name_b
    match kind_a:
        case "trace":
            return diff_traces(of_a, of_b, names, threshold)
        case "measurement":
            return diff_measurements(of_a, of_b, names, threshold)
        case _:
            return diff_explanations(of_a, of_b, names, threshold)


def _found(result: Result, name: str) -> tuple[str, str, Any]:
    """Return the kind of a result, its name in messages, and the result itself."""
    if isinstance(result, TraceWorkload):
        return "trace", name, result
    if isinstance(result, Explanation):
        return "explanation", name, read_explanation(result.model_dump())
    kind, path = kind_of(result)
    readers = {"trace": open_trace, "measurement": read_measurement, "explanation": read_explanation}
    return kind, printable(result), readers[kind](path)  # type: ignore[operator]
