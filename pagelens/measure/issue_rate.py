"""Measures how many instructions a core begins in a cycle.

A family's file states how many a core can begin. Where other programs, or guests of other owners, run on the
second thread of the same core, it begins fewer, and nothing that a guest can read says so. Chains of
operations that wait for each other take as long as on a core of one's own, so a measured latency does not
show it either. Loops that could fill the whole core do.
"""

from dataclasses import dataclass

import numpy as np

from pagelens import _probes
from pagelens.machine.detect.detected_value import Found, read
from pagelens.measure.choices import cpus_of
from pagelens.values.quantities import Sourced

ENOUGH = 0.9  # of what the family's file states; ports keep some cores a few per cent below that
_REPEATS = 8000  # of some 15 us: others' work on the same core changes within milliseconds


@dataclass(frozen=True)
class IssueRates:
    """Operations in a cycle, of loops without any wait."""

    adds_and_loads: float
    typical: float

    @property
    def most(self) -> float:
        """The rate of the faster loop."""
        return max(self.adds_and_loads, self.typical)


def issue_rates() -> IssueRates:
    """Measure both loops on the first processor that this process may use, in a quarter of a second.

    The median counts: half of the time, the core is no faster.
    """
    cpu = cpus_of(None)[0]
    rates = (float(np.median(_probes.issue(typical, _REPEATS, cpu))) for typical in (False, True))
    return IssueRates(*rates)


def issue_width(stated: Sourced[float], rates: IssueRates) -> Found | None:
    """Return the instructions in a cycle that a machine file is to state in place of `stated`, if any.

    What is assumed of an unknown family is replaced, and what is known only where the core falls short of it.
    """
    of_loops = f"{rates.adds_and_loads:.2g} of additions and loads, {rates.typical:.2g} of a typical mix"
    if stated.assumed is not None:
        return read(round(rates.most, 2), f"measured here: {of_loops} begin in a cycle")
    if rates.most >= ENOUGH * stated.value:
        return None
    return read(
        round(rates.most, 2),
        f"measured here: this core reaches {rates.most:.2g} of {stated.value:g} instructions a cycle "
        f"({of_loops}): others may share it",
    )
