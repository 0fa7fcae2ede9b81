"""Writes the answer so far for the progress bar. It is refined while nodes are simulated."""

import numpy as np

from pagelens.ensemble import Ensemble
from pagelens.explain.intervals import Intervals
from pagelens.explain.verdict import MATTERS
from pagelens.units import format_time

_MOST_POLICIES = 8


def so_far(found: Ensemble) -> str:
    """Return what the bounds say, and each policy's times, in lines of at most 80 columns."""
    lines = [bounds_in_words(*found.between())]
    if found.nodes:
        lines.append(
            f"{'so far':<16} {'nodes':>5} {'fastest':>10} {'median':>10} {'slowest':>10} {'gain':>7}"
        )
        times = Intervals(found).times
        before = times[found.baseline]
        for policy, seconds in list(times.items())[:_MOST_POLICIES]:
            both = min(len(before), len(seconds))
            gain = np.median(before[:both]) / np.median(seconds[:both])
            shown = (format_time(float(of(seconds))) for of in (np.min, np.median, np.max))
            lines.append(
                f"{policy[:16]:<16} {len(seconds):>5} " + " ".join(f"{each:>10}" for each in shown)
                + (f" {gain:>6.2f}x" if policy != found.baseline else "")
            )  # fmt: skip
    return "\n".join(lines)


def bounds_in_words(least: float, most: float) -> str:
    """Say what placement can cost at most, before anything is simulated."""
    if most <= least:
        return "Page placement cannot change the time: the program waits for no memory."
    added, best = format_time(most - least), format_time(least)
    if most <= MATTERS * least:
        return f"Page placement cannot matter: it adds at most {added} to {best}."
    return f"Page placement adds at most {added} to {best}; simulated nodes say how much."
