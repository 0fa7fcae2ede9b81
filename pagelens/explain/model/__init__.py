"""The explanation as data: what `--json` prints, what the terminal and the report render.

Each field says in its description whether it is counted (traced or declared lines through the stated
caches), modelled (frames of simulated nodes, times) or stated (an input). `docs/explain-json.md` and its
schema are made from these classes; `schema_version` changes when a field changes its meaning or goes away.
"""

from typing import Literal

from pydantic import Field

from pagelens.explain.model.answers import (
    Assumption,
    Conclusion,
    JobCostRecord,
    JobWayRecord,
    RemedyGain,
    TimedRecord,
)
from pagelens.explain.model.causes import (
    AttributionRecord,
    CollisionRecord,
    NumaObject,
    NumaPart,
    NumaRecord,
    ObjectRecord,
    PartRecord,
    SharedObject,
    SlotMap,
)
from pagelens.explain.model.record import Record
from pagelens.explain.model.setting import (
    BoundsRecord,
    Input,
    JobRecord,
    MachineRecord,
    ProgramRecord,
    RankSpread,
    RankWaitRecord,
    SampleRecord,
)
from pagelens.explain.model.spread import (
    Best,
    Correlation,
    Distribution,
    Histogram,
    ResourceRecord,
)

__all__ = [
    "SCHEMA_VERSION",
    "Assumption",
    "AttributionRecord",
    "Best",
    "BoundsRecord",
    "CollisionRecord",
    "Conclusion",
    "Correlation",
    "Distribution",
    "Explanation",
    "Histogram",
    "Input",
    "JobCostRecord",
    "JobRecord",
    "JobWayRecord",
    "MachineRecord",
    "NumaObject",
    "NumaPart",
    "NumaRecord",
    "ObjectRecord",
    "PartRecord",
    "ProgramRecord",
    "RankSpread",
    "RankWaitRecord",
    "RemedyGain",
    "ResourceRecord",
    "SampleRecord",
    "SharedObject",
    "SlotMap",
    "TimedRecord",
]

SCHEMA_VERSION: Literal[5] = 5


class Explanation(Record):
    """All that `pagelens explain` says about one program on one machine."""

    schema_version: Literal[5] = SCHEMA_VERSION
    conclusion: Conclusion
    program: ProgramRecord
    machine: MachineRecord
    sample: SampleRecord
    baseline: str = Field(description="the policy that remedies are compared with and conclusions are about")
    best: Best
    bounds: BoundsRecord
    distributions: list[Distribution]
    attributions: list[AttributionRecord] = Field(
        description="the mean over nodes, and the slowest: of every policy, or of the baseline alone where "
        "an attribution takes replays"
    )
    objects: list[ObjectRecord]
    collisions: list[CollisionRecord]
    slot_maps: list[SlotMap]
    numa: list[NumaRecord] | None = Field(
        default=None, description="one for each policy; null on a machine of one NUMA node"
    )
    remedies: list[RemedyGain] = Field(
        description="policies that one can choose, by gain in the median, best first"
    )

    assumptions: list[Assumption] = Field(
        description="values of the time model that the machine file assumes, each varied alone"
    )
    timed: TimedRecord | None = Field(
        default=None, description="the result of `explain --timed`; null if the program was not timed"
    )

    job_cost: JobCostRecord | None = Field(
        default=None, description="the result of `explain --job-nodes`; null without it"
    )

    def distribution(self, policy: str) -> Distribution:
        """Return the distribution of one policy."""
        return next(d for d in self.distributions if d.policy == policy)

    def off_scale(self) -> frozenset[str]:
        """Return the policies whose nodes all take more than twice the baseline's worst time.

        Figures leave them out of their axes, because they would press all others into a corner.
        """
        most = 2 * self.distribution(self.baseline).worst_s
        return frozenset(d.policy for d in self.distributions if d.best_s > most)
