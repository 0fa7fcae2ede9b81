"""The result of an ensemble: tables of nodes x policies x phases, and what they were made from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from pagelens.accesses.workload import Workload
from pagelens.frames import Policy, Step
from pagelens.machine import Machine
from pagelens.machine.schema import ServedBy
from pagelens.replay.bounds import Bounds
from pagelens.replay.memory_side_engine import TWIN_COUNTS, TWINS
from pagelens.replay.node_engine import KEPT
from pagelens.replay.run import Sampling

# Seconds that each resource of the time model is busy; the longest of a phase is its time.
RESOURCES = {
    "issue": "issue_s",
    "page faults": "page_faults_s",
    "latency": "latency_s",
    "page walks": "page_walks_s",
    "caches": "caches_s",
    "fast memory": "fast_memory_s",
    "DDR": "ddr_s",
    "links": "links_s",  # between NUMA nodes
}

# One row a node, policy and phase. Counters are lines of the whole node, scaled up from what is simulated;
# times are seconds of the stated model. docs/architecture.md explains each; every other module takes the
# names from here. The columns from msc_hits to the twins' are of a memory-side cache. KEPT are of a node
# without one, but for translation and rows, which both have. A machine's rows have zeros in the other's.
PLACEMENTS = pl.Schema(
    {
        "node": pl.UInt32,
        "policy": pl.String,
        "phase": pl.String,
        "instructions": pl.Float64,
        "l2_accesses": pl.Float64,
        "l2_misses": pl.Float64,
        "l2_write_backs": pl.Float64,
        "msc_reads": pl.Float64,
        "msc_writes": pl.Float64,
        "msc_hits": pl.Float64,
        "msc_misses": pl.Float64,
        "msc_read_misses": pl.Float64,
        "ddr_reads": pl.Float64,
        "ddr_writes": pl.Float64,
        **{f"{twin}_{count}": pl.Float64 for twin in TWINS for count in TWIN_COUNTS},
        **dict.fromkeys(KEPT, pl.Float64),
        "conflict_share": pl.Float64,
        "simulated_share": pl.Float64,  # of the run's lines, where parts of it stand for the whole; else 0
        "large_pages": pl.Float64,  # of the policy's size, handed out in the whole run
        "large_pages_missing": pl.Float64,  # wanted, but there was none: small pages instead
        "hint_faults": pl.Float64,  # of NUMA balancing
        "pages_moved": pl.Float64,  # by NUMA balancing, to another NUMA node
        "pages_demoted": pl.Float64,  # to make room for these
        **dict.fromkeys(RESOURCES.values(), pl.Float64),
        "time_s": pl.Float64,
        "at_once_time_s": pl.Float64,
        "serial_time_s": pl.Float64,
        "equal_cores_time_s": pl.Float64,
    }
)
OBJECTS = pl.Schema(
    {
        "node": pl.UInt32,
        "policy": pl.String,
        "phase": pl.String,
        "object": pl.String,
        "accesses": pl.Float64,
        "misses": pl.Float64,
        "conflict_evictions": pl.Float64,
    }
)
# Lines of `victim` evicted from the memory-side cache by lines of `object`.
COLLISIONS = pl.Schema(
    {
        "node": pl.UInt32,
        "policy": pl.String,
        "object": pl.String,
        "victim": pl.String,
        "lines": pl.Float64,
    }
)
# The cache's slots in cells of equally many neighbours: how many pages of the job a slot of the cell holds on
# average, when most pages are resident.
SLOTS = pl.Schema(
    {
        "node": pl.UInt32,
        "policy": pl.String,
        "cell": pl.UInt32,
        "pages_per_slot": pl.Float64,
    }
)
# What the time would be without some of the mechanisms: their names, joined by SEPARATOR; none: "".
COUNTERFACTUALS = pl.Schema(
    {
        "node": pl.UInt32,
        "policy": pl.String,
        "phase": pl.String,
        "without": pl.String,
        "time_s": pl.Float64,
    }
)
SEPARATOR = ", "
# What a phase would take by all stretches of the run that were simulated but one. Without rows where nothing
# is sampled in time.
STRETCHES = pl.Schema(
    {
        "node": pl.UInt32,
        "policy": pl.String,
        "phase": pl.String,
        "stretch": pl.UInt32,
        "time_s": pl.Float64,
        "serial_time_s": pl.Float64,
    }
)
# What a phase would take if a value that the machine file assumes were `factor` times as large.
ASSUMED = pl.Schema(
    {
        "node": pl.UInt32,
        "policy": pl.String,
        "phase": pl.String,
        "value": pl.String,
        "factor": pl.Float64,
        "time_s": pl.Float64,
    }
)
# Lines of memory of an object, by the NUMA node whose cores ask for them and the one whose memory has them,
# and lines that are taken from the caches of that node's cores.
# Without rows on a machine of one NUMA node.
NUMA = pl.Schema(
    {
        "node": pl.UInt32,
        "policy": pl.String,
        "phase": pl.String,
        "object": pl.String,
        "from": pl.UInt32,
        "to": pl.UInt32,
        "reads": pl.Float64,
        "writes": pl.Float64,
        "taken": pl.Float64,
    }
)
TABLES = {
    "placements": PLACEMENTS,
    "counterfactuals": COUNTERFACTUALS,
    "objects": OBJECTS,
    "collisions": COLLISIONS,
    "slots": SLOTS,
    "stretches": STRETCHES,
    "assumed": ASSUMED,
    "numa": NUMA,
}


@dataclass(frozen=True)
class Tables:
    """The rows of one piece of an ensemble, or of all of them."""

    placements: pl.DataFrame
    counterfactuals: pl.DataFrame
    objects: pl.DataFrame
    collisions: pl.DataFrame
    slots: pl.DataFrame
    stretches: pl.DataFrame
    assumed: pl.DataFrame
    numa: pl.DataFrame

    def __post_init__(self) -> None:
        for name, schema in TABLES.items():
            if self[name].schema != schema:
                raise ValueError(f"table {name} has {self[name].schema}, not {schema}")

    def __getitem__(self, name: str) -> pl.DataFrame:
        table: pl.DataFrame = getattr(self, name)
        return table

    @staticmethod
    def of(**some: pl.DataFrame) -> "Tables":
        """Return tables of which these have rows."""
        return Tables(**{name: some.get(name, schema.to_frame()) for name, schema in TABLES.items()})

    @staticmethod
    def concatenate(parts: Iterable["Tables"]) -> "Tables":
        """Return all rows of `parts`, in their order."""
        every = list(parts)
        return Tables(**{name: pl.concat([part[name] for part in every]) for name in TABLES})


def table(schema: pl.Schema, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return a table of columns by name. Single values fill their column, and missing numbers are 0."""
    rows = max(len(values) for values in columns.values() if not isinstance(values, str | int))
    full = {}
    for name in schema:
        values = columns.get(name, 0) if schema[name] == pl.Float64 else columns[name]
        full[name] = [values] * rows if isinstance(values, str | int) else values
    return pl.DataFrame(full, schema=dict(schema), strict=False)


def baseline_of(policies: Iterable[str]) -> str:
    """Return the policy that others are compared with.

    It is "aged", what a node has after running for a while, or else the first one.
    """
    names = list(policies)
    return "aged" if "aged" in names else names[0]


@dataclass(frozen=True)
class Ensemble:
    """The rows of all nodes, and all that decided them."""

    tables: Tables
    workload: Workload
    machine: Machine
    policies: Mapping[str, Policy]  # in the order that was asked for
    nodes: int  # under the baseline; other policies may have stopped before
    seed: int
    ranks: int
    cores_used: int
    sampling: Sampling
    bounds: Bounds  # seconds [phase] between which every placement lies
    phase: str | None = None
    scaled: float | None = None  # factor on the machine's capacities
    history: tuple[Step, ...] = ()  # the history of every node before the program runs
    stopped: Mapping[str, int] = field(default_factory=dict)  # nodes of the policies that have fewer

    @property
    def baseline(self) -> str:
        """The policy that the others are compared with."""
        return baseline_of(self.policies)

    def nodes_under(self, policy: str) -> int:
        """Return how many nodes were simulated under the policy, from node 0 on."""
        return self.stopped.get(policy, self.nodes)

    def between(self) -> tuple[float, float]:
        """Return the least and the most seconds that any placement can take in what is explained."""
        phases = slice(None) if self.phase is None else self.workload.phases.index(self.phase)
        return float(self.bounds.least_s[phases].sum()), float(self.bounds.most_s[phases].sum())

    @property
    def served_by(self) -> ServedBy:
        """What serves the lines that the job's caches miss."""
        return self.machine.served_by(self.workload.job_bytes(self.ranks))
