"""Prints results of the lab, one line for each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagelens.lab import Compared, Counted, Result, StepDone, shape_distance
from pagelens.units import format_binary_size, format_count, format_time

_SHOWN = 44  # columns of a history


def step_lines(step: StepDone) -> Iterator[str]:
    """Yield the lines of a finished step: the free blocks of each order, and the counts of a run."""
    for zone, blocks in step.buddyinfo.items():
        yield f"{step.text:<28} {zone:<14} " + " ".join(f"{count:5d}" for count in blocks)
    if step.run is None:
        return
    for counted in (step.run.total, *step.run.regions):
        yield f"  {_line(counted)}"
        if len(counted.nodes) > 1:
            yield f"  {'':<20} {_by_node(counted)}"
    if step.run.plan is not None:
        yield f"  {_plan(step.run.plan)}"
    yield (
        f"  conflict share {step.run.conflict_share:.1%} of {step.run.resident_pages} resident pages; "
        f"status {step.run.status}"
    )


def render_run(result: Result) -> str:
    """Return the runs side by side."""
    request = result.request
    lines = [
        "",
        f"Linux {result.release}, {format_binary_size(request.memory_bytes)} of memory"
        + (
            f" behind {format_binary_size(request.cache_bytes)} of memory-side cache"
            if request.cache_bytes
            else ""
        )
        + f"; {request.machine.title}",
        f"{'run':<4}{'conflict':>9}{'hits':>8}{'write-backs':>13}{'from DDR':>10}{'time (modelled)':>17}",
    ]
    runs = [step.run for step in result.steps if step.run]
    for number, run in enumerate(runs, 1):
        counts = run.total.counts
        lines.append(
            f"{number:<4}{run.conflict_share:>9.1%}{_hits(run.total):>8}"
            f"{format_count(counts['ddr_writes']):>13}{format_count(counts['ddr_reads']):>10}"
            f"{_time(run.total):>17}"
        )
    lines.append("Counted: all that the guest did while the program ran, in lines of 64 bytes.")
    return "\n".join(lines) + "\n"


def compared_row(row: Compared) -> str:
    """Return one step of `lab validate`.

    It has the conflict shares of guest, model and random frames, and the distance of the shapes.
    """
    history = row.history if len(row.history) <= _SHOWN else row.history[: _SHOWN - 3] + "..."
    marks = "" if row.shares_agree and row.shapes_agree else "  DIFFERS"
    shape = shape_distance(row.guest_blocks, row.model_blocks)
    return (
        f"{history:<{_SHOWN}}  {row.step:<14}  guest {row.guest_share:6.1%}  model {row.model_share:6.1%}  "
        f"random {row.random_share:6.1%}  shape {shape:.3f}{marks}"
    )


def _line(counted: Counted) -> str:
    counts = counted.counts
    return (
        f"{counted.name:<20} hits {_hits(counted):>6}  reads {format_count(counts['msc_reads']):>7}  "
        f"writes {format_count(counts['msc_writes']):>7}  from DDR {format_count(counts['ddr_reads']):>7}  "
        f"write-backs {format_count(counts['ddr_writes']):>7}  {_time(counted)}"
    )


def _hits(counted: Counted) -> str:
    return "-" if counted.time_s is None else f"{counted.hit_share:.1%}"


def _time(counted: Counted) -> str:
    return "-" if counted.time_s is None else format_time(counted.time_s)


def _plan(plan: dict[str, Any]) -> str:
    """Return how much of the planned fast memory was fast.

    It counts pages that were looked at and that the program had touched.
    """
    objects = [one for one in plan["objects"] if one["blocks"]]
    fast, slow = (sum(one["to_be_fast"][tier] for one in objects) for tier in ("fast_bytes", "slow_bytes"))
    share = f"{fast / (fast + slow):.1%}" if fast + slow else "nothing"
    return (
        f"plan: {len(objects)} of {len(plan['objects'])} objects had blocks; {share} of what was to be fast "
        f"was, at most {format_binary_size(plan['peak_fast_bytes'])} at a time"
    )


def _by_node(counted: Counted) -> str:
    """Return the lines of each node's memory."""
    parts = (
        f"node {number}: {format_count(node.reads)} read, {format_count(node.writes)} written"
        for number, node in enumerate(counted.nodes)
    )
    return "; ".join(parts)
