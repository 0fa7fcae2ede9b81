"""The explanation as data: what `--json` prints, what the terminal and the report render.

Each field says in its description whether it is counted (traced or declared lines through the stated
caches), modelled (frames of simulated nodes, times) or stated (an input). `docs/explain-json.md` and its
schema are made from these classes; `schema_version` changes when a field changes its meaning or goes away.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pagelens.explain.verdict import Verdict
from pagelens.replay.mechanisms import L3_CONFLICTS, SNOOP_FILTER

SCHEMA_VERSION: Literal[5] = 5


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RankSpread(_Record):
    """A count that the traced ranks of a job have, each its own: counted."""

    name: str
    least: float
    median: float
    most: float


class JobRecord(_Record):
    """A job whose ranks were traced one by one."""

    traced_ranks: int = Field(description="each other rank is a copy of one of these")
    spreads: list[RankSpread] = Field(description="how much the traced ranks differ")
    statements: list[str] = Field(description="what is taken to be so")


class ProgramRecord(_Record):
    """The program that was explained."""

    name: str
    source: Literal["trace", "declared"]
    footprint_bytes: int = Field(
        description="counted: peak resident bytes of one rank; their mean if the ranks differ"
    )
    threads: int
    ranks: int = Field(description="stated: copies of the program on a node, each with its own pages")
    job: JobRecord | None = Field(
        default=None, description="null unless several ranks were traced, each for itself"
    )
    phase: str | None = Field(description="stated: the phase looked at; null for the whole run")
    phases: list[str]
    share_seen: float | None = Field(
        description="counted: share of the run that was traced; null when declared"
    )
    shared_bytes: int = Field(
        description="counted: bytes of files that the program reads through mappings; the ranks share them"
    )
    share_of_zero_page: float = Field(
        description="counted: share of the lines that are of anonymous memory which was never written until "
        "then; the kernel shows its one page of zeros for it, and these lines are not simulated"
    )
    warnings: list[str]


class Input(_Record):
    """One value of the machine file."""

    name: str
    value: str
    origin: Literal["source", "input", "assumed"]
    note: str = Field(description="the document, the calibration figure, or the reason of the assumption")


class MachineRecord(_Record):
    """The machine that was modelled."""

    name: str
    title: str
    served_by: Literal["memory-side cache", "fast memory", "DDR"] = Field(
        description="the memory that serves the lines; in flat mode the fast memory if all of the job "
        "fits into it"
    )
    left_out: list[str] = Field(description="stated: sections of the machine file that are not replayed yet")
    inputs: list[Input]


class SampleRecord(_Record):
    """How the numbers were obtained."""

    nodes: int = Field(
        description="the number of nodes under the baseline; each distribution has its own number"
    )
    seed: int
    sampled_slots: str = Field(description="the simulated slots of the memory-side cache, such as '1 in 64'")
    sampled_lines: str = Field(
        description="simulated, of each page, such as '2 of 64', or of the run, such as '12% of the run's'"
    )
    scaled: float | None = Field(
        description="stated: factor on the machine's capacities (--full-size); null if none"
    )
    version: str
    command: str = Field(description="reproduces the result")


class BoundsRecord(_Record):
    """The seconds between which every placement's time lies, at the median core's speed: modelled."""

    least_s: float = Field(description="the seconds if the L2s served every line that leaves L1")
    most_s: float = Field(
        description="the seconds if each of these lines missed every cache and opened a row of DRAM, "
        "after a page walk"
    )


class Best(_Record):
    """The fastest run of the ensemble over all policies and nodes. 'Slower' is measured against it."""

    policy: str
    node: int
    time_s: float = Field(description="modelled")


class Correlation(_Record):
    """How one counter moves with the time over the nodes; null where the counter or the time is constant."""

    counter: str
    pearson: float | None
    spearman: float | None


class Histogram(_Record):
    """Nodes by run time relative to the best. Bin i is [edges[i], edges[i+1]); the last includes its end."""

    edges: list[float]
    nodes: list[int]


class ResourceRecord(_Record):
    """A resource of the time model: modelled, mean over the nodes.

    A phase takes as long as its busiest resource.
    """

    name: str
    busy_s: float = Field(description="how long it is busy")
    bound_s: float = Field(description="time of the phases that it decides; of all resources, the mean time")


class Distribution(_Record):
    """Run times over the nodes under one policy: modelled.

    Misses and shares are counted on modelled frames.
    """

    policy: str
    title: str
    nodes: int = Field(
        description="the number of nodes that were simulated, which is smaller than the baseline's if "
        "more would change nothing"
    )
    median_s: float
    median_low_s: float = Field(
        description="95% interval of the median, by the choice of nodes and of what is simulated of the run"
    )
    median_high_s: float
    p5_s: float
    p95_s: float
    p95_low_s: float = Field(description="95% interval, as of the median")
    p95_high_s: float
    best_s: float
    worst_s: float
    at_once_median_s: float = Field(
        description="the lower bound: the median if loads and lines between caches went on at the same time"
    )
    serial_median_s: float = Field(description="the upper bound: the median if nothing overlapped")
    median_slowdown: float = Field(description="median over the best of the ensemble")
    gain_median: float = Field(description="median time of the baseline over this one: 2 is twice as fast")
    gain_median_low: float = Field(description="95% interval, as of the median")
    gain_median_high: float
    slower_10_percent: float = Field(
        description="share of nodes more than 10% slower than the best of the ensemble"
    )
    slower_20_percent: float
    modes: int = Field(description="modes of the distribution, by Silverman's test at 5%")
    histogram: Histogram
    miss_rate_median: float = Field(description="counted: misses of the memory-side cache over its accesses")
    conflict_share_median: float = Field(
        description="counted: share of resident pages whose slot holds another page of the job"
    )
    page_bytes: int = Field(description="stated: of the policy's pages; what is too small for one has 4 KiB")
    large_pages_mean: float = Field(
        description="counted: pages of more than 4 KiB handed out in the whole run, on all ranks"
    )
    large_pages_missing_mean: float = Field(
        description="counted: large pages wanted when the node had none; 4 KiB pages took their place"
    )
    resources: list[ResourceRecord] = Field(description="busiest first")
    correlations: list[Correlation]
    times_s: list[float] = Field(description="the seconds of each node, from node 0 on")
    misses: list[float] = Field(description="counted: lines missed in the memory-side cache, by node")

    @property
    def mean_s(self) -> float:
        """The mean over the nodes."""
        return sum(self.times_s) / len(self.times_s)

    @property
    def surely_differs(self) -> bool:
        """Whether its median surely differs from the baseline's."""
        return not self.gain_median_low <= 1 <= self.gain_median_high

    def resource(self, name: str) -> ResourceRecord:
        """Return a resource, which is all zero if the policy does not use it."""
        unused = ResourceRecord(name=name, busy_s=0, bound_s=0)
        return next((r for r in self.resources if r.name == name), unused)


class PartRecord(_Record):
    """The seconds that one mechanism costs: modelled."""

    mechanism: str = Field(description="such as 'conflicts', 'capacity', 'write-backs'")
    seconds: float = Field(
        description="its Shapley value: what removing it saves, averaged over all orders; negative is a gain"
    )
    without_s: float | None = Field(
        description="the time with this mechanism alone removed; null where it cannot be (capacity of caches)"
    )


class AttributionRecord(_Record):
    """The time of one policy by mechanism: exact Shapley parts, counterfactuals, interaction; modelled."""

    policy: str
    nodes: str = Field(description="'mean' over the nodes that were attributed, or the 'slowest' of them")
    of_nodes: int = Field(
        description="the number of nodes that were attributed: all, or the first few if each costs replays"
    )
    time_s: float
    unburdened_s: float = Field(description="the seconds with every mechanism removed")
    parts: list[PartRecord] = Field(description="they add up to time_s - unburdened_s")
    interaction_s: float = Field(
        description="saved by removing all that can be removed alone, beyond the sum of removing each alone"
    )
    two_way_s: float | None = Field(
        description="the seconds with a 2-way memory-side cache of the same size; null without such a cache"
    )

    @property
    def has_shared_caches(self) -> bool:
        """Whether an L3 or a snoop filter is among the mechanisms."""
        return bool({L3_CONFLICTS, SNOOP_FILTER} & {part.mechanism for part in self.parts})

    def part(self, mechanism: str) -> PartRecord:
        """Return the part of that name."""
        return next(part for part in self.parts if part.mechanism == mechanism)


class ObjectRecord(_Record):
    """The traffic of one object at the memory-side cache under one policy: counted, mean over the nodes."""

    policy: str
    name: str
    bytes: int | None
    ranks: int | None = Field(
        default=None, description="the traced ranks that have it; null unless several ranks were traced"
    )
    accesses: float = Field(description="lines")
    misses: float
    access_share: float
    miss_share: float
    miss_rate: float
    conflict_evictions: float


class SlotMap(_Record):
    """The job's pages in each slot of the memory-side cache, on one node: counted on modelled frames."""

    policy: str
    node: int
    pages_per_slot: list[float] = Field(description="mean over each cell of equally many consecutive slots")
    conflict_share: float = Field(description="the share on that node")


class CollisionRecord(_Record):
    """Lines of `victim` that lines of `name` evicted in the whole run: counted, mean over the nodes."""

    policy: str
    name: str
    victim: str
    lines: float
    share: float = Field(description="the share of all evictions")


class NumaObject(_Record):
    """The lines of one object that lie on another NUMA node than the cores that ask for them: counted."""

    name: str
    remote_share: float = Field(description="the share of the object's lines")
    share: float = Field(description="the share of all such lines")


class NumaPart(_Record):
    """How long the memory of a NUMA node, or a direction of a link, is busy: modelled."""

    name: str = Field(description="such as 'memory of node 0' or 'node 0 to 1', the way that data take")
    busy_s: float


class NumaRecord(_Record):
    """The traffic between NUMA nodes under one policy, as the mean over the nodes of the fleet."""

    policy: str
    remote_share: float = Field(description="counted: the share of memory's lines that are remote")
    objects: list[NumaObject] = Field(description="most remote lines first")
    parts: list[NumaPart] = Field(description="busiest first")


class RemedyGain(_Record):
    """What a policy that a user can choose gains over the baseline, on the same nodes: modelled."""

    policy: str
    title: str
    gain_median: float = Field(
        description="median time of the baseline over that of the policy: 2 is twice as fast"
    )
    gain_median_low: float = Field(
        description="95% interval, paired, by the choice of nodes and of what is simulated of the run"
    )
    gain_median_high: float
    gain_p95: float = Field(description="the same for the 95th percentile: the slow nodes")
    gain_p95_low: float
    gain_p95_high: float
    gain_worst: float = Field(description="the same for the worst node of each")
    gain_serial: float = Field(description="gain_median if nothing overlapped: the other bound of the time")
    root: str = Field(description="what a system administrator must do; empty: nothing")
    memory: str = Field(description="memory it costs; empty: none")
    code: str = Field(description="change to the program or its start; empty: none")
    verdict: Verdict = Field(
        description="'gains' or 'costs': by more than 2%, and its interval agrees. 'none': by less. "
        "'unsure': by more, but its interval holds 1. 'bounds disagree': by one bound of the time it gains, "
        "by the other it costs"
    )


class Assumption(_Record):
    """A value that the machine file assumes, and the values that leave the conclusion the same; modelled."""

    name: str = Field(description='such as "ddr.bandwidth"')
    value: str
    note: str = Field(description="stated: the reason of the assumption")
    tried_from: str = Field(description="the least of its range; a third of it if none is stated")
    tried_to: str = Field(description="the largest of its range; three times as much if none is stated")
    holds_from: str = Field(description="the conclusion is the same from here")
    holds_to: str = Field(description="the conclusion is the same up to here")
    below: str = Field(description="what holds below; empty if nothing changes down to tried_from")
    above: str = Field(description="what holds above; empty if nothing changes up to tried_to")
    range_is_stated: bool = Field(default=False, description="by the machine file")
    simulated: bool = Field(
        default=False,
        description="whether nodes were simulated again; if not, the times follow from the same counts",
    )
    gain_as_it_is: float = Field(default=1, description="of the advised remedy, else of the best one")
    gain_from: float = Field(default=1, description="the same at tried_from")
    gain_to: float = Field(default=1, description="the same at tried_to")


class Conclusion(_Record):
    """The answer in words."""

    placement_matters: bool = Field(
        description="false when neither the node's history nor a remedy changes the time by more than 2%"
    )
    sentences: list[str]


class TimedRecord(_Record):
    """The time of one copy of the program on this machine, beside the time modelled for it."""

    measured_s: list[float] = Field(description="measured: seconds of each run")
    of_kernel_s: list[float] = Field(
        description="measured: processor time of each run that the kernel used on the program's behalf"
    )
    clock: Literal["processor time", "elapsed time"] = Field(
        description="the kind of time in measured_s; it is processor time for a program of one thread"
    )
    modelled_s: float = Field(description="modelled: seconds of one copy on a node that has just booted")
    by_pipeline: bool = Field(
        description="whether cycles are modelled by the instructions of the trace; else by the issue width"
    )


class JobWayRecord(_Record):
    """One way to run a job on many nodes."""

    title: str
    policy: str
    left_out: int = Field(description="the number of spare nodes; as many of the slowest are left out")
    time_s: float = Field(description="modelled: expected time of the slowest node that is kept")
    time_low_s: float = Field(description="95% interval, bootstrap over nodes")
    time_high_s: float
    gain: float = Field(description="time of the job as it is over this one")
    gain_low: float = Field(description="95% interval, paired bootstrap over nodes")
    gain_high: float


class JobCostRecord(_Record):
    """A job on many nodes that all wait for the slowest."""

    nodes: int = Field(description="the number of nodes of the job")
    of_nodes: int = Field(description="the number of nodes of the ensemble, from which the job's are drawn")
    median_s: float = Field(description="modelled: time of a median node under the baseline")
    lower_bound: bool = Field(
        description="whether the job has more nodes than the ensemble: then it costs at least this"
    )
    ways: list[JobWayRecord] = Field(description="the job as it is comes first")


class Explanation(_Record):
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
