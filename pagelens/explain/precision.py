"""When an ensemble has enough nodes for its medians.

Nodes come in rounds, each of twice as many as all before (`pagelens.ensemble.ROUNDS`). After each, the spread
between the nodes says how far the median of many more nodes can lie from the one that is there. It says
nothing of slow nodes that are rare (`words.few_nodes_note`).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # scipy.stats takes half a second to import

from pagelens.ensemble import ROUNDS, Ensemble
from pagelens.explain.intervals import Intervals
from pagelens.statistics import CONFIDENCE


def left_to_chance(ensemble: Ensemble) -> float:
    """Half of the widest interval that the choice of nodes leaves to a median, as a share of it.

    Medians are of each policy's times, and of its gains over the baseline on the same nodes; each by both
    bounds of the time. Infinite for a single node.
    """
    if ensemble.nodes < 2:
        return np.inf
    widest = 0.0
    for column in ("time_s", "serial_time_s"):
        times = Intervals(ensemble, column).times
        baseline = times[ensemble.baseline]
        widest = max(widest, *(half_width(of) for of in times.values()))
        widest = max(widest, *(half_width(baseline / of) for of in times.values()))
    return widest


def half_width(values: NDArray[np.float64]) -> float:
    """Of the interval of the median of positive values, as a share of it.

    The median of n normal values of standard deviation s has the error s sqrt(pi / 2 n) (Kendall, Stuart: The
    Advanced Theory of Statistics 1, chapter 10); here the values are logarithms. Student's t stands for few
    nodes. An ensemble is asked once a round, so that each of these answers is wrong as rarely as keeps all
    of them together at CONFIDENCE (Bonferroni).
    """
    n = len(values)
    error = np.log(values).std(ddof=1) * np.sqrt(np.pi / (2 * n))
    doubt = (1 - CONFIDENCE) / len(ROUNDS)
    return float(np.expm1(stdtrit(n - 1, 1 - doubt / 2) * error))
