"""The samples that the core model follows have on average what the run has."""

from dataclasses import dataclass

import numpy as np
import pytest

from pagelens.replay.chosen_samples import choose_samples, sample_weights

INSTRUCTIONS = 60_000_000
MOST, FEW = 256, 32


@dataclass
class Sample:
    """What `sample_weights` reads of a sample."""

    thread: int
    first_instruction: int
    instructions: int = 4096


def drawn(random: np.random.Generator, instructions: int, thread: int = 0) -> list[Sample]:
    """Samples at distances of a half to one and a half, as those of tracer/instruction_sampler.hpp."""
    found, distance = [], 1 << 16
    at = int(random.integers(0, 100))
    while at < instructions:
        found.append(Sample(thread, at))
        at += distance // 2 + int(random.integers(0, distance))
    return found


@pytest.mark.parametrize("steps", [(MOST,), (FEW,), (MOST, FEW)])
@pytest.mark.parametrize("period", [INSTRUCTIONS, 1 << 17, 1_000_000])
def test_the_mean_of_samples_is_that_of_the_run(steps: tuple[int, ...], period: int) -> None:
    """The program waits for memory in the last twentieth of each period, or of the whole run.

    The model follows some of the samples, and a few of these again for other values of the machine. A mean is
    a ratio of two estimates, so that of few samples is off by some percent on average.
    """
    estimates = []
    for seed in range(60):
        samples = drawn(np.random.default_rng(seed), INSTRUCTIONS)
        weights = sample_weights(samples, {0: INSTRUCTIONS})  # type: ignore[arg-type]
        slow = [sample.first_instruction % period > 0.95 * period for sample in samples]
        waits = {number: 0.2 if is_slow else 0.001 for number, is_slow in enumerate(slow)}
        chosen = dict(enumerate(weights.tolist()))
        for most in steps:
            chosen = choose_samples(chosen, waits, most)
        assert len(chosen) <= steps[-1]
        weight = np.array(list(chosen.values()))
        cycles = np.array([20.0 if slow[number] else 1.0 for number in chosen])
        estimates.append((weight * cycles).sum() / weight.sum())
    assert np.mean(estimates) == pytest.approx(0.95 + 0.05 * 20, rel=0.04 if steps == (MOST,) else 0.1)


def test_samples_stand_for_all_instructions_of_their_threads() -> None:
    """One thread has its last sample early, because the others of it were not recorded."""
    random = np.random.default_rng(1)
    samples = [*drawn(random, INSTRUCTIONS // 4, 0), *drawn(random, INSTRUCTIONS, 1)]
    weights = sample_weights(samples, {0: INSTRUCTIONS, 1: INSTRUCTIONS})  # type: ignore[arg-type]
    assert weights.sum() == pytest.approx(2 * INSTRUCTIONS)
