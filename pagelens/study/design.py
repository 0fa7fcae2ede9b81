"""Chooses the points of the space of inputs that a study simulates: all of a grid, or a sample."""

import itertools
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pagelens.study.inputs import Value
from pagelens.study.study_file import MOST_POINTS, Sample, Stated

Values = Mapping[str, Value]  # by input


def design(stated: Stated) -> list[Values]:
    """Return the values of each point, in an order that depends on the file alone. Raises UsageError.

    The last input of a grid changes fastest. A sample is drawn from the seed of the study.
    """
    sample = stated.file.sample
    return _grid(stated) if sample is None else _sample(stated, sample)


def _grid(stated: Stated) -> list[Values]:
    levels: dict[str, tuple[Value, ...]] = {}
    for name, each in stated.file.inputs.items():
        try:
            levels[name] = each.levels()
        except ValueError as error:
            raise stated.refused(name, error) from None
    count = math.prod(map(len, levels.values()))
    if count > MOST_POINTS:
        largest = max(levels, key=lambda name: len(levels[name]))
        raise stated.refused(
            largest,
            f"the grid has {count:,} points, and at most {MOST_POINTS:,} are possible; use a [sample]",
        )
    return [dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values())]


def _sample(stated: Stated, sample: Sample) -> list[Values]:
    """Draw points in the unit cube with an axis for each input that varies, and turn them into values.

    Owen, "Scrambling Sobol' and Niederreiter-Xing points", J. Complexity 14, 1998; McKay, Beckman, Conover,
    "A comparison of three methods for selecting values of input variables", Technometrics 21, 1979.
    """
    from scipy.stats import qmc  # takes half a second to import

    varied = stated.file.varied
    if not varied:
        raise stated.refused("sample", "no input varies; give one several values or a range")
    if sample.method == "saltelli":
        shares = _saltelli(stated, sample.points, len(varied))
    else:
        kind = qmc.Sobol if sample.method == "sobol" else qmc.LatinHypercube
        shares = kind(len(varied), seed=stated.file.seed).random(sample.points)
    fixed = {name: each.listed[0] for name, each in stated.file.inputs.items() if not each.varies}
    return [
        fixed | {name: stated.file.inputs[name].at(float(u)) for name, u in zip(varied, row, strict=True)}
        for row in shares
    ]


def _saltelli(stated: Stated, points: int, inputs: int) -> NDArray[np.float64]:
    """Return `points` rows A, as many rows B, and for each input the rows A with that input's values of B.

    Saltelli et al., "Variance based sensitivity analysis of model output", Computer Physics Communications
    181, 2010: (inputs + 2) times as many points, from which total indices follow.
    """
    from scipy.stats import qmc

    count = points * (inputs + 2)
    if count > MOST_POINTS:
        raise stated.refused(
            "sample", f"this is {count:,} points, and at most {MOST_POINTS:,} are possible; take fewer points"
        )
    drawn = qmc.Sobol(2 * inputs, seed=stated.file.seed).random(points)
    a, b = drawn[:, :inputs], drawn[:, inputs:]
    mixed = [np.where(np.arange(inputs) == place, b, a) for place in range(inputs)]
    return np.vstack([a, b, *mixed])
