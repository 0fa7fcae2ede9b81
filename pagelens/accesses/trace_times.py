"""When processes were traced: for how long, and whether side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pagelens import _core

_BY_CLOCK = 1e-9  # of a trace's times: seconds


class Gap(NamedTuple):
    """A time in which none of some processes ran: between the last of the earlier ones and a later one."""

    before: int  # the numbers of these two
    after: int
    seconds: float


def seconds_traced(trace: _core.Trace) -> float | None:
    """Return how long the recording took by the clock; None: it was set back, or the trace does not say."""
    if trace.end is None or not trace.began or trace.end.time < trace.began:
        return None
    return (trace.end.time - trace.began) * _BY_CLOCK


def are_timed(traces: Sequence[_core.Trace]) -> bool:
    """Return whether all traces say when they were recorded."""
    return all(seconds_traced(trace) is not None for trace in traces)


def first_gap(traces: Sequence[_core.Trace]) -> Gap | None:
    """Return a gap between processes that ran one after another, or None if they may have run side by side.

    The ranks of an MPI job ran side by side, and each has another number. A process whose trace was cut by a
    budget went on.
    """
    ranks = {trace.rank for trace in traces if trace.rank}
    if not are_timed(traces) or len(ranks) == len(traces):
        return None
    in_order = sorted(range(len(traces)), key=lambda number: traces[number].began)
    last, end = in_order[0], 0.0
    for number in in_order:
        trace = traces[number]
        if number != last and trace.began >= end:
            return Gap(last, number, (trace.began - end) * _BY_CLOCK)
        assert trace.end is not None
        ends = math.inf if trace.end.kind == _core.EndKind.budget else trace.end.time
        if ends > end:
            last, end = number, ends
    return None
