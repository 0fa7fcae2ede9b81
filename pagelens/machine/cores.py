"""The processor cores of a node, and how they differ from those of other nodes."""

import math
from statistics import NormalDist
from typing import Annotated, Literal

from pydantic import Field

from pagelens import _core
from pagelens.values.quantities import Hertz, Positive, PositiveFloat, Seconds, Sourced, Table

Spread = Annotated[float, Field(ge=0, le=0.2, allow_inf_nan=False)]


class Cores(Table):
    """The processor cores of the node."""

    count: Sourced[Positive] = Field(description="cores that a job can use")
    frequency: Sourced[Hertz] = Field(description="the frequency of the median node under the load of a job")
    instructions_per_cycle: Sourced[PositiveFloat] = Field(description="at most, of one core")
    outstanding_lines: Sourced[Positive] = Field(description="line fetches that one core keeps in flight")
    line_latency: Sourced[Seconds] | None = Field(
        default=None,
        description="on a machine with `[numa]`: the latency of a load, if another core of the same node has "
        "changed the line and still has it; without this field, and without `numa.line_latencies`, such a "
        "load costs nothing",
    )
    transfers: Sourced[Literal["in turn", "at once"]] | None = Field(
        default=None,
        description="how lines between a core's caches go on beside its loads: `in turn`, as on Intel's "
        "cores, or `at once`, which also holds without this value",
    )
    frequency_spread: Sourced[Spread] | None = Field(
        default=None,
        description="standard deviation of its logarithm between nodes, under power and heat",
    )

    def frequency_factor(self, seed: int, node: int) -> float:
        """Return this node's frequency over the median node's.

        The factor is log-normal, and the same for all runs and policies.
        """
        if self.frequency_spread is None or self.frequency_spread.value == 0:
            return 1.0
        draw = _core.Random(seed, node, 0, _core.Stream.frequency)
        uniform = (draw.below((1 << 32) - 1) + 1) / (1 << 32)  # neither 0 nor 1
        return math.exp(self.frequency_spread.value * NormalDist().inv_cdf(uniform))
