"""An analytic ensemble for tests of the explanation: no replay, every count from a formula.

Two arrays, A (two thirds) and B, are swept `SWEEPS` times by reads and written once a sweep. A page of a
job that fills the share f of a direct-mapped cache in a memory R times as large shares its slot with
another, when frames are independent draws, with probability 1 - (1 - f/R)^(R-1); its lines then miss in
every sweep. A node is `fresh` (no such page) or `random`; an aged node is random with probability 0.7, its
luck varies by 3%.
"""

import numpy as np
import polars as pl
from machine_roles import CACHE_MODE

from pagelens import _core
from pagelens.accesses.workload import Cut, ObjectInfo, Timeline, Workload
from pagelens.ensemble.result import (
    RESOURCES,
    SEPARATOR,
    TABLES,
    Ensemble,
    Tables,
)
from pagelens.ensemble.simulate import times_columns
from pagelens.frames import policies as known_policies
from pagelens.machine import TRANSLATION_COUNTS, Machine, PrivateCache, load_machine, modelled_times
from pagelens.replay.bounds import Bounds
from pagelens.replay.mechanisms import TWO_WAY
from pagelens.replay.memory_side_engine import TWIN_COUNTS, TWINS, counterfactuals, of_twin
from pagelens.replay.node_engine import KEPT
from pagelens.replay.run import Sampling

SWEEPS = 10
CELLS = 64


class SyntheticWorkload(Workload):
    """Stands for the program in an explanation; nothing is ever compiled."""

    def __init__(self, footprint_bytes: int, shares: dict[str, float]) -> None:
        super().__init__()
        self.name, self.source, self.digest = "two-arrays", "declared", "synthetic"
        self.objects = [
            ObjectInfo(index=i, name=name, bytes=int(share * footprint_bytes))
            for i, (name, share) in enumerate(shares.items(), 1)
        ]
        self.phases, self.threads, self.footprint_bytes = ["setup", "solve"], 1, footprint_bytes
        self.share_seen, self.warnings, self.large_blocks = None, [], []

    def timeline(self, cut: Cut) -> Timeline:
        raise NotImplementedError("no analytic ensemble is placed on two memories")

    def _compile(
        self,
        machine: Machine,
        caches: tuple[PrivateCache, ...],
        page_bits: int,
        in_order: bool,
        offset_bytes: int,
        cancel: _core.CancelFlag | None,
    ) -> _core.Program:
        raise NotImplementedError


POLICIES = ("aged", "aged+zonesort", "random", "contiguous", "2m")


def conflict_probability(policy: str, fill: float, ratio: float, rng: np.random.Generator) -> float:
    """Share of pages that share their slot, of one node."""
    random = 1 - (1 - fill / ratio) ** (ratio - 1)
    luck = 1 + 0.03 * rng.standard_normal()
    old = rng.random() < 0.7
    return {
        "aged": random * luck if old else 0.02 * luck,
        "aged+zonesort": 0.05 * luck,
        "random": random,
        "contiguous": 0.0,
        "2m": 0.6 * random * luck if old else 0.02 * luck,
    }[policy]


def ensemble(
    nodes: int = 64,
    policies: tuple[str, ...] = POLICIES,
    fill: float = 0.9,
    placement_matters: bool = True,
    phase: str | None = None,
) -> Ensemble:
    """An ensemble whose job fills the share `fill` of the cache of a Cori KNL node."""
    machine = load_machine(CACHE_MODE)
    lines = round(fill * machine.slots * 64)
    ratio = machine.frames / machine.slots
    objects = {"A.values": 2 / 3, "B.values": 1 / 3}
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES}
    made: list[tuple[dict[str, object], dict[str, int]]] = []
    for node in range(nodes):
        for policy in policies:
            rng = np.random.default_rng([node, len(policy)])
            shared = conflict_probability(policy, fill, ratio, rng) if placement_matters else 0.0
            for name, sweeps in (("setup", 1), ("solve", SWEEPS)):
                reads, writes = lines * sweeps, lines * sweeps
                again = round(shared * lines * (sweeps - (name == "setup")))
                first = lines if name == "setup" else 0
                counts = {
                    "instructions": 8 * reads,
                    "l2_accesses": reads,
                    "l2_misses": reads,
                    "l2_write_backs": writes,
                    "msc_reads": reads,
                    "msc_writes": writes,
                    "msc_hits": reads + writes - first - again,
                    "msc_misses": first + again,
                    "msc_read_misses": first + again,
                    "ddr_reads": first + again,
                    "ddr_writes": again,
                }
                twins = {"two_way": first + again // 3, "ideal": first, "first": first}
                for twin in TWINS:
                    for count in TWIN_COUNTS:
                        counts[f"{twin}_{count}"] = twins[twin]
                    counts[f"{twin}_ddr_writes"] = twins[twin] - first
                counts |= dict.fromkeys(TRANSLATION_COUNTS, 0)
                key = {"node": node, "policy": policy, "phase": name}
                made.append((key, counts))
                rows["placements"].append(
                    key | counts | dict.fromkeys((*KEPT, "simulated_share"), 0.0)
                    | {"large_pages": float(policy == "2m"), "large_pages_missing": 0.0}
                    | {"conflict_share": shared, **dict.fromkeys(RESOURCES.values(), 0.0)}
                )  # fmt: skip
                for thing, share in objects.items():
                    rows["objects"].append(
                        key
                        | {
                            "object": thing,
                            "accesses": round(share * (reads + writes)),
                            "misses": round(share * (first + again)),
                            "conflict_evictions": round(share * again),
                        }
                    )
                if name == "solve":
                    for thing, share in objects.items():
                        for victim, other in objects.items():
                            rows["collisions"].append(
                                {"node": node, "policy": policy, "object": thing, "victim": victim,
                                 "lines": round(share * other * again)}
                            )  # fmt: skip
            occupancy = (
                rng.poisson(fill, CELLS * 64).reshape(CELLS, 64) if shared > 0.1 else np.ones((CELLS, 64))
            )
            for cell in range(CELLS):
                rows["slots"].append(
                    {"node": node, "policy": policy, "cell": cell,
                     "pages_per_slot": float(occupancy[cell].mean())}
                )  # fmt: skip
    _add_times(rows, made, machine)
    footprint = int(lines * 64) // machine.cores.count.value
    return Ensemble(
        tables=Tables(**{name: pl.DataFrame(rows[name], schema=dict(TABLES[name])) for name in TABLES}),
        workload=SyntheticWorkload(footprint, objects),
        machine=machine,
        policies={name: known_policies[name] for name in policies},
        nodes=nodes,
        seed=7,
        ranks=machine.cores.count.value,
        cores_used=machine.cores.count.value,
        sampling=Sampling(64, 2),
        bounds=Bounds(np.array([0.0, 0.0]), np.array([1e3, 1e3])),
        phase=phase,
    )


def _add_times(
    rows: dict[str, list[dict[str, object]]],
    made: list[tuple[dict[str, object], dict[str, int]]],
    machine: Machine,
) -> None:
    """Add the times of all placements at once, with and without each set of mechanisms."""
    counts = {name: np.array([float(of_row[name]) for _, of_row in made]) for name in made[0][1]}
    cores = machine.cores.count.value
    columns = times_columns(modelled_times(machine, counts, cores))
    for number, row in enumerate(rows["placements"]):
        row |= {name: values[number] for name, values in columns.items()}
    found = {SEPARATOR.join(removed): of for removed, of in counterfactuals(machine, counts, cores, 1.0)}
    found[TWO_WAY] = modelled_times(machine, {**counts, **of_twin(counts, "two_way")}, cores).time_s
    for number, (key, _) in enumerate(made):
        rows["counterfactuals"] += [
            key | {"without": without, "time_s": seconds[number]} for without, seconds in found.items()
        ]
