"""Prints the section of a probe."""

import textwrap
from collections.abc import Iterator
from dataclasses import astuple

from pagelens.audit import Effect, Probe, ProbedPlacement
from pagelens.report import terminal_width
from pagelens.units import format_binary_size, format_share


def probe_lines(probe: Probe) -> Iterator[str]:
    """Yield a line for each placement."""
    shares = [f"{format_share(share)} on node {node}" for node, share in probe.nodes.items() if share < 1]
    taken = "taken" if probe.measured else "not taken"
    large = next((placement.large_share for placement in probe.placements if placement.name == "probed"), 0)
    where = "".join(f"; {part}" for part in shares + [f"{format_share(large)} on large pages"] * (large > 0))
    text = f"Probe: a job of {format_binary_size(probe.size)} on {probe.pages} pages"
    yield from textwrap.wrap(f"{text} ({taken}{where}), before {probe.machine}", terminal_width())
    if any(_known(placement.effect) for placement in probe.placements):
        yield from _table(probe)
    for note in probe.notes:
        yield from textwrap.wrap(note, terminal_width() - 2, initial_indent="  ", subsequent_indent="  ")


def _known(effect: Effect) -> bool:
    return any(share is not None for share in astuple(effect))


def _table(probe: Probe) -> Iterator[str]:
    yield f"  {'':<28} in cache   bank    row  snoop filter  large"
    yield f"  {'placed':<28} conflict   load confl.   mean  worst  pages  by"
    for placement in probe.placements:
        yield _line(placement)
    legend = (
        "In cache conflict: the share of pages whose slot of the memory-side cache holds another page of the "
        "job. Bank load: the lines of the fullest DRAM bank over the mean. Row conflicts: how often two "
        "streams, one through each half of the job, are in one bank but in different rows. Snoop filter: the "
        "share of lines of full L2s beyond its ways. By: measured, from this machine's free frames, or by "
        "the model's rule (as if all memory were free)."
    )
    yield from textwrap.wrap(legend, terminal_width() - 2, initial_indent="  ", subsequent_indent="  ")


def _line(placement: ProbedPlacement) -> str:
    effect = placement.effect
    load = "-" if effect.bank_load is None else f"{effect.bank_load:.2f}"
    by = {"measured": "meas.", "free frames": "free", "model": "rule"}[placement.source]
    return (
        f"  {placement.title:<28} {_percent(effect.conflict_share):>8} {load:>6} "
        f"{_percent(effect.row_conflicts):>6} {_percent(effect.filter_share):>6} "
        f"{_percent(effect.filter_worst):>6} {format_share(placement.large_share):>6}  {by}"
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"
