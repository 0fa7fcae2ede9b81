"""What nodes go through between boot and the job: the draws that make nodes of one fleet differ."""

import math
from dataclasses import dataclass

from pagelens import _core
from pagelens.machine import Machine
from pagelens.machine.schema import FRAME_BYTES

FLEET_GRAIN = (
    16  # frames a unit: shares of conflicting pages within a point of grain 1 (tests/python/test_history.py)
)


@dataclass(frozen=True)
class JobMix:
    """The jobs that a fleet's nodes run, and what they leave behind: assumptions about a site."""

    mean_jobs_since_boot: float  # geometric: a node may be fresh
    smallest_job_bytes: float  # a job's size is uniform in the logarithm between these
    largest_job_bytes: float
    processes: int  # of a job
    longest_turn_pages: int  # first-touched by one process before another's turn
    cache_interval_pages: float  # mean pages touched between two that enter the page cache
    cache_share: float  # of memory that the page cache holds after a job
    huge_share: float  # of a job's touches that take a 2 MiB page
    kept_free_share: float  # of memory
    fewest_stragglers: float  # page-cache pages that survive dropping the caches on a node that ran jobs:
    largest_straggler_share: float  # log-uniform from that many to this share of memory

    def to_core(self) -> _core.JobMix:
        """The part that the core's ageing needs, in frames."""
        return _core.JobMix(
            smallest_job_frames=self.smallest_job_bytes / FRAME_BYTES,
            largest_job_frames=self.largest_job_bytes / FRAME_BYTES,
            processes=self.processes,
            longest_turn=self.longest_turn_pages,
            cache_interval=self.cache_interval_pages,
            cache_share=self.cache_share,
            huge_share=self.huge_share,
            kept_free_share=self.kept_free_share,
        )

    def draw_jobs(self, random: _core.Random) -> int:
        """Jobs since the node's boot: geometric with the stated mean."""
        stays = self.mean_jobs_since_boot / (1 + self.mean_jobs_since_boot)
        return int(math.log(1 - random.uniform()) / math.log(stays)) if stays > 0 else 0

    def draw_stragglers(self, frames: int, random: _core.Random) -> int:
        """Pages that dropping the caches leaves behind on a node that ran jobs."""
        most = max(self.fewest_stragglers, self.largest_straggler_share * frames)
        return round(random.log_uniform(self.fewest_stragglers, most))


# Assumed throughout: no site has published its jobs' sizes with their order of allocation. Jobs fill
# between a twentieth and most of Cori's 96 GiB; one process a core; nodes are rebooted after a few jobs, as
# when a health check reboots slow ones (seed 000). The largest share of stragglers is where sorting by
# address is defeated (tests/python/test_history.py).
CORI_MIX = JobMix(
    mean_jobs_since_boot=4.0,
    smallest_job_bytes=4 * 2.0**30,
    largest_job_bytes=80 * 2.0**30,
    processes=68,
    longest_turn_pages=16,
    cache_interval_pages=544.0,
    cache_share=0.02,
    huge_share=0.0,
    kept_free_share=0.02,
    fewest_stragglers=1.0,
    largest_straggler_share=0.0002,
)


@dataclass(frozen=True)
class NodeState:
    """One node of the fleet as a job finds it, and as it is after caches were dropped and the lists sorted.

    Both are snapshots: placements copy them, and nothing changes them.
    """

    node: int
    seed: int
    jobs_since_boot: int
    stragglers: int
    aged: _core.NodeState
    sorted: _core.NodeState


def age_node(
    machine: Machine, seed: int, node: int, grain: int = FLEET_GRAIN, mix: JobMix = CORI_MIX
) -> NodeState:
    """Runs one node's history, determined by (seed, node) alone.

    Jobs larger than the memory fill it to the share kept free. `grain` is 1 (exact) to 16 frames a unit.
    """
    random = _core.Random(seed, node, 0, _core.Stream.history)
    jobs = mix.draw_jobs(random)
    aged = _core.NodeState(machine.frames // grain * grain, grain)
    aged.age(jobs, mix.to_core(), random)

    swept = _core.Random(seed, node, 0, _core.Stream.stragglers)
    stragglers = mix.draw_stragglers(machine.frames, swept) if jobs else 0
    after = _core.NodeState(aged)
    after.drop_caches(stragglers, swept)
    after.zonesort()
    return NodeState(node, seed, jobs, stragglers, aged, after)
