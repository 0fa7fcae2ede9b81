"""The course of a run behind a memory-side cache: the seconds of each interval on one placement."""

from collections.abc import Mapping

import numpy as np

from pagelens import _core
from pagelens.accesses.workload import ALL_SETS, KERNEL, Timeline
from pagelens.machine import CoreTimes, modelled_times
from pagelens.replay.memory_side import by_phase, replay
from pagelens.replay.placement import Placement
from pagelens.replay.run import Floats, instructions


def course_times(
    course: Timeline,
    placement: Placement,
    ranks: int,
    cores_used: int,
    translation: Mapping[str, Floats],
    core: CoreTimes | None = None,
    cancel: _core.CancelFlag | None = None,
) -> Floats:
    """Return the seconds of `ranks` copies by interval.

    `translation` has their TRANSLATION_COUNTS by interval, and `core` is that of `modelled_times`. If the
    course has a sample of the lines, counts are scaled up to all. Raises _core.Cancelled.
    """
    program, sample = course.program, course.sample
    of_objects = of_caches = None
    if sample is not None:
        of_objects, of_caches = sample.of_both, sample.of_intervals
        of_objects[:, KERNEL] = 1  # pages are cleared whole
    counters = replay(
        program, placement.machine, placement.frames, placement.page_bits,
        ranks=ranks, seed=0, node=placement.node, among=sample.sets if sample else ALL_SETS, cancel=cancel,
    )  # fmt: skip
    counts = {
        name: values.astype(np.float64) for name, values in by_phase(counters, of_objects, of_caches).items()
    }
    executed = instructions(ranks, program.instructions, program.phases)
    columns = {**translation, **counts, "instructions": executed}
    return modelled_times(placement.machine, columns, cores_used, core=core).time_s
