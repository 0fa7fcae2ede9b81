"""The result of an ensemble: tables of nodes x policies x phases, and what they were made from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.accesses.workload import Workload
from pagelens.frames import Policy
from pagelens.machine import Machine, Times

# Caches fed the same stream as the machine's memory-side cache, and what is counted of each. `ideal` is
# fully associative with random replacement (docs/decisions/ideal-twin.md); `first` is an infinite cache,
# which misses each line once.
TWINS = ("two_way", "ideal", "first")
TWIN_COUNTS = ("misses", "read_misses", "ddr_writes")

# Of what a replay through all of a node counts.
NODE_COUNTS = (
    "l3_hits", "l3_misses", "sf_evictions", "l2_back_invalidations", "stlb_hits", "walks", "walker_loads",
    "row_hits", "row_misses", "row_conflicts",
)  # fmt: skip

# Seconds that each resource of the time model is busy; the longest of a phase is its time.
RESOURCES = {
    "issue": "issue_s",
    "latency": "latency_s",
    "page walks": "page_walks_s",
    "L2": "l2_s",
    "fast memory": "fast_memory_s",
    "DDR": "ddr_s",
}

# One row a node, policy and phase. Counters are lines of the whole node (scaled up from what is simulated),
# times are seconds of the stated model. docs/architecture.md explains each; every other module takes the
# names from here. The columns from msc_hits to the twins' are of a memory-side cache, those of NODE_COUNTS of
# a node without one, except for what translating costs and for rows; the others' rows have zeros there.
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
        **dict.fromkeys(NODE_COUNTS, pl.Float64),
        "conflict_share": pl.Float64,
        "simulated_share": pl.Float64,  # of the run's lines, where parts of it stand for the whole; else 0
        "large_pages": pl.Float64,  # of the policy's size, handed out in the whole run
        "large_pages_missing": pl.Float64,  # wanted, but there was none: small pages instead
        **dict.fromkeys(RESOURCES.values(), pl.Float64),
        "time_s": pl.Float64,
        "serial_time_s": pl.Float64,
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
TABLES = {
    "placements": PLACEMENTS,
    "counterfactuals": COUNTERFACTUALS,
    "objects": OBJECTS,
    "collisions": COLLISIONS,
    "slots": SLOTS,
}


@dataclass(frozen=True)
class Tables:
    """The rows of one node, or of all of them."""

    placements: pl.DataFrame
    counterfactuals: pl.DataFrame
    objects: pl.DataFrame
    collisions: pl.DataFrame
    slots: pl.DataFrame

    def __post_init__(self) -> None:
        for name, schema in TABLES.items():
            if self[name].schema != schema:
                raise ValueError(f"table {name} has {self[name].schema}, not {schema}")

    def __getitem__(self, name: str) -> pl.DataFrame:
        table: pl.DataFrame = getattr(self, name)
        return table

    @staticmethod
    def concatenate(parts: Iterable["Tables"]) -> "Tables":
        """All rows of `parts`, in their order."""
        every = list(parts)
        return Tables(**{name: pl.concat([part[name] for part in every]) for name in TABLES})


def of_times(times: Times) -> dict[str, NDArray[np.float64]]:
    """The columns of `placements` that hold times."""
    resources = {RESOURCES[name]: seconds for name, seconds in times.resources.items()}
    return resources | {"time_s": times.time_s, "serial_time_s": times.serial_time_s}


def table(schema: pl.Schema, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Columns of one length by name; single values fill theirs, numbers that are not given are 0."""
    rows = max(len(values) for values in columns.values() if not isinstance(values, str | int))
    full = {}
    for name in schema:
        values = columns.get(name, 0) if schema[name] == pl.Float64 else columns[name]
        full[name] = [values] * rows if isinstance(values, str | int) else values
    return pl.DataFrame(full, schema=dict(schema), strict=False)


@dataclass(frozen=True)
class Ensemble:
    """The rows of all nodes, and all that decided them."""

    tables: Tables
    workload: Workload
    machine: Machine
    policies: Mapping[str, Policy]  # in the order asked for
    nodes: int
    seed: int
    ranks: int
    cores_used: int
    sampling: int  # one slot in `sampling` is simulated
    phase: str | None = None
    scaled: float | None = None  # factor on the machine's capacities
