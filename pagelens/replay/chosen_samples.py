"""Chooses the samples of a trace that the core model follows, and says how much of the run each stands for.

Samples are spread over the run by instructions. But a short part of it can take most of the time, such as a
chase of pointers after a long computation. So samples are drawn by what they stand for: half by instructions,
half by the lines that the core may have to wait for. Each chosen sample is weighted by the inverse of its
chance (the estimator of Hansen and Hurwitz: On the theory of sampling from finite populations, Annals of
Mathematical Statistics 14(4), 1943), so this changes what is certain, and not what is expected.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pagelens.accesses.sampled_code import SampledRun

Floats = NDArray[np.float64]


def sample_weights(samples: Sequence[SampledRun], executed: Mapping[int, int]) -> Floats:
    """Return the instructions that each sample stands for: those nearer to it than to the thread's others.

    `executed` gives the instructions of each thread. Where a part of the run begins or ends is as likely in
    the first half between two samples as in the second, so no part is favoured.
    """
    weights = np.zeros(len(samples))
    of_threads: dict[int, list[int]] = {}
    for number, sample in enumerate(samples):
        of_threads.setdefault(sample.thread, []).append(number)
    for thread, numbers in of_threads.items():
        middle = [samples[n].first_instruction + samples[n].instructions / 2 for n in numbers]
        end = max(executed.get(thread, 0), middle[-1])
        borders = [0.0, *((before + after) / 2 for before, after in pairwise(middle)), end]
        weights[numbers] = np.maximum(np.diff(borders), 1)
    return weights


def choose_samples(stand_for: Mapping[int, float], waits: Mapping[int, float], most: int) -> dict[int, float]:
    """Return at most `most` of the samples, with the instructions that each stands for then.

    `stand_for` gives the instructions that each of them stands for so far. `waits` gives the lines that a
    core may wait for in each instruction of a sample.
    """
    if len(stand_for) <= most:
        return dict(stand_for)
    samples, weights = list(stand_for), np.array(list(stand_for.values()))
    lines = weights * np.array([waits[sample] for sample in samples])
    chance = weights / weights.sum()
    if lines.sum() > 0:
        chance = (chance + lines / lines.sum()) / 2
    until = np.cumsum(chance) / chance.sum()
    points = (np.arange(most) + 0.5) / most
    drawn, times = np.unique(np.minimum(np.searchsorted(until, points), len(samples) - 1), return_counts=True)
    return {
        samples[index]: float(weights[index] * count / (most * chance[index]))
        for index, count in zip(drawn.tolist(), times.tolist(), strict=True)
    }
