"""Measures how many cycles a core loses by a branch that it did not foresee.

A loop branches by one byte after the other. If the bytes are random, every second guess is wrong, whatever
the branch predictor. Between two wrong guesses there are then two passes of the loop on average. The model of
the core (docs/core-model.md) takes for these: the load of the byte and the branch, one cycle after their
dispatch, the cycles that are sought, and a pass that was foreseen.
"""

import numpy as np

from pagelens import _probes
from pagelens.machine.detect.detected_value import read
from pagelens.machine.pipeline import Pipeline
from pagelens.measure.choices import cpus_of
from pagelens.measure.tlb import Section

_BRANCHES = 2000  # of a run: so few that most runs are not interrupted
_RUNS = 500


def pass_ns(random: bool) -> float:
    """Return the ns of one pass. Every second one mispredicts if `random`.

    A tenth of many runs is faster. Others may have been interrupted, or slowed by the core's other thread.
    """
    found = _probes.branches(_BRANCHES, random, _RUNS, cpus_of(None)[0], 1)
    return float(1e9 * np.quantile(found.seconds, 0.1) / _BRANCHES)


def mispredict_section(
    pipeline: Pipeline, foreseen_ns: float, random_ns: float, frequency: float
) -> dict[str, Section]:
    """Return what a wrong guess costs, if it costs any time. `frequency` is that of the core in Hz."""
    foreseen, random = (1e-9 * ns * frequency for ns in (foreseen_ns, random_ns))
    resolved = 1 + pipeline.load_cycles.value + pipeline.branch.value.cycles
    cycles = round(2 * random - foreseen - resolved)
    if cycles < 1:
        return {}
    source = (
        f"measured here: a branch by random bytes takes {random_ns:.3g} ns on average, and one by equal "
        f"bytes {foreseen_ns:.3g} ns"
    )
    return {"pipeline": {"mispredict_cycles": read(cycles, source)}}
