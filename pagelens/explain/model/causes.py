"""What the time is made of: mechanisms, objects, and traffic between NUMA nodes."""

from pydantic import Field

from pagelens.explain.model.record import Record
from pagelens.replay.mechanisms import L3_CONFLICTS, SNOOP_FILTER


class PartRecord(Record):
    """The seconds that one mechanism costs: modelled."""

    mechanism: str = Field(description="such as 'conflicts', 'capacity', 'write-backs'")
    seconds: float = Field(
        description="its Shapley value: what removing it saves, averaged over all orders; negative is a gain"
    )
    without_s: float | None = Field(
        description="the time with this mechanism alone removed; null where it cannot be (capacity of caches)"
    )


class AttributionRecord(Record):
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


class ObjectRecord(Record):
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


class SlotMap(Record):
    """The job's pages in each slot of the memory-side cache, on one node: counted on modelled frames."""

    policy: str
    node: int
    pages_per_slot: list[float] = Field(description="mean over each cell of equally many consecutive slots")
    conflict_share: float = Field(description="the share on that node")


class CollisionRecord(Record):
    """Lines of `victim` that lines of `name` evicted in the whole run: counted, mean over the nodes."""

    policy: str
    name: str
    victim: str
    lines: float
    share: float = Field(description="the share of all evictions")


class NumaObject(Record):
    """The lines of one object that lie on another NUMA node than the cores that ask for them: counted."""

    name: str
    remote_share: float = Field(description="the share of the object's lines")
    slow_share: float | None = Field(
        default=None, description="the share of the object's lines on NUMA nodes of a lower tier of memory"
    )
    share: float = Field(description="the share of all such lines")
    first_written_by: str | None = Field(
        default=None,
        description="counted: the function and line of the program that write most of the object's pages "
        "first; null if the trace does not tell",
    )


class SharedObject(Record):
    """How often threads take lines of one object from each other: counted."""

    name: str
    taken: float
    share: float = Field(description="the share of all such lines")


class NumaPart(Record):
    """How long the memory of a NUMA node, or a direction of a link, is busy: modelled."""

    name: str = Field(description="such as 'memory of node 0' or 'node 0 to 1', the way that data take")
    busy_s: float


class NumaRecord(Record):
    """The traffic between NUMA nodes under one policy, as the mean over the nodes of the fleet."""

    policy: str
    remote_share: float = Field(description="counted: the share of memory's lines that are remote")
    slow_share: float | None = Field(
        default=None,
        description="counted: the share of memory's lines that are on NUMA nodes of a lower tier of memory; "
        "null on machines without such nodes",
    )
    objects: list[NumaObject] = Field(description="most remote lines first")
    parts: list[NumaPart] = Field(description="busiest first")
    shared: list[SharedObject] = Field(
        description="objects whose lines threads take from each other, most first"
    )
    taken_at_no_cost: float | None = Field(
        default=None,
        description="counted: the lines that cores of one node take from each other, if the machine file "
        "does not state how long that takes; null if it does",
    )
    hint_faults: float | None = Field(
        default=None, description="counted: faults of NUMA balancing; null under policies without it"
    )
    pages_moved: float | None = Field(
        default=None, description="counted: pages of 4 KiB that NUMA balancing moves; null as hint_faults"
    )
    pages_demoted: float | None = Field(
        default=None,
        description="counted: pages of 4 KiB that go to slow NUMA nodes to make room for promoted "
        "ones; null as hint_faults",
    )
