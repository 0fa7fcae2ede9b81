"""How the times of the nodes are spread, by policy."""

from pydantic import Field

from pagelens.explain.model.record import Record


class Best(Record):
    """The fastest run of the ensemble over all policies and nodes. 'Slower' is measured against it."""

    policy: str
    node: int
    time_s: float = Field(description="modelled")


class Correlation(Record):
    """How one counter moves with the time over the nodes; null where the counter or the time is constant."""

    counter: str
    pearson: float | None
    spearman: float | None


class Histogram(Record):
    """Nodes by run time relative to the best. Bin i is [edges[i], edges[i+1]); the last includes its end."""

    edges: list[float]
    nodes: list[int]


class ResourceRecord(Record):
    """A resource of the time model: modelled, mean over the nodes.

    A phase takes as long as its busiest resource, or as the cores, which do one thing after another.
    """

    name: str
    busy_s: float = Field(description="how long it is busy")
    bound_s: float = Field(
        description="time that it decides; of all resources, the mean time. Where the cores decide it, they "
        "share it by what they do in turn: issue, page faults and waiting"
    )


class Distribution(Record):
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
    placement_spread: float | None = Field(
        default=None,
        description="p95_s over p5_s if all nodes had the median node's core frequency; null if they have it",
    )
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
    def spread(self) -> float:
        """How much longer slow nodes (95th percentile) take than fast ones (5th percentile)."""
        return self.p95_s / self.p5_s

    @property
    def spread_of_placement(self) -> float:
        """How much of the spread is left if no node's cores are slower than another's."""
        return self.spread if self.placement_spread is None else self.placement_spread

    @property
    def surely_differs(self) -> bool:
        """Whether its median surely differs from the baseline's."""
        return not self.gain_median_low <= 1 <= self.gain_median_high

    def resource(self, name: str) -> ResourceRecord:
        """Return a resource, which is all zero if the policy does not use it."""
        unused = ResourceRecord(name=name, busy_s=0, bound_s=0)
        return next((r for r in self.resources if r.name == name), unused)
