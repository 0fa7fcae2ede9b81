"""How long the optimum of a plan takes: 10,000 call sites, most of them too small to be divided.

Sizes and traffic are drawn log-normally, as allocators' sites are; each site is used in one of eight
interleaved phases and lives for a stretch of the run. `python bench/bench_place.py [SITES]`.
"""

import sys
import time

import numpy as np

from pagelens.accesses.workload import ObjectInfo
from pagelens.machine import load_machine
from pagelens.place.analysis import evaluate_policies
from pagelens.place.optimum import optimum
from pagelens.place.policies import OURS
from pagelens.place.profile import INTERVALS, Profile, without_dominated
from pagelens.place.time_model import TimeModel

PHASES, MOMENTS, RANKS = 8, 1024, 68


def drawn_profile(sites: int, seed: int = 1) -> Profile:
    """A program with so many call sites."""
    random = np.random.default_rng(seed)
    size = np.exp(random.normal(11, 2.5, sites)) + 64
    lines = size / 64 * np.exp(random.normal(0, 1.5, sites))
    phase = random.integers(0, PHASES, sites)
    used = (np.arange(INTERVALS)[:, None] % PHASES) == phase
    reads = np.where(used, lines * random.random((INTERVALS, sites)), 0.0)
    begin = random.random(sites) * 0.5
    end = begin + 0.1 + random.random(sites) * 0.5
    moments = np.linspace(0, 1, MOMENTS)[:, None]
    course = np.where((moments >= begin) & (moments < end), size, 0.0)
    none = np.zeros(INTERVALS)
    names = ("l3_hits", "core_forwards", "stlb_hits", "walks", "walker_loads")
    blocks = np.where(np.arange(sites) % 2, 1, np.maximum(1, size // 1000)).astype(int)
    return Profile(
        name="drawn",
        machine=load_machine("cori-knl-flat"),
        ranks=RANKS,
        cores_used=RANKS,
        objects=[
            ObjectInfo(o, f"site {o}", births=int(blocks[o]), site=(f"app!f+{o:#x}",)) for o in range(sites)
        ],
        can_be_placed=np.ones(sites, dtype=bool),
        phases=["run"] * INTERVALS,
        counts={**dict.fromkeys(names, none), "instructions": RANKS * 20 * reads.sum(axis=1)},
        reads=RANKS * reads,
        writes=RANKS * reads * random.random(sites),
        accesses=lines,
        in_sequence=np.ones(sites),
        threads=np.ones(sites, dtype=np.uint32),
        course=course,
        live_bytes=without_dominated(course),
        simulated=1.0,
    )


def main() -> None:
    """Prints seconds, gap and the next policy, at three capacities."""
    sites = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    profile = drawn_profile(sites)
    model = TimeModel.of(profile)
    print(f"{sites} sites, {len(profile.live_bytes)} moments, {INTERVALS} intervals")
    for share in (0.05, 0.5, 0.9):
        capacity = share * profile.footprint_bytes
        begin = time.perf_counter()
        best = optimum(profile, model, capacity)
        seconds = time.perf_counter() - begin
        placed = evaluate_policies(profile, model, capacity)
        times = {name: model.seconds(shares) for name, shares in placed.shares.items()}
        behind = min(value for name, value in times.items() if name != OURS) / times[OURS] - 1
        print(
            f"{share:.0%} of the footprint: {seconds:.1f} s, gap {best.gap:.1e}, "
            f"next policy {behind:.2%} slower"
        )


if __name__ == "__main__":
    main()
