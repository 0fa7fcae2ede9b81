"""What the history of a node costs: 96 GiB, aged by 100 jobs of 4 to 80 GiB, in user time and memory.

Beside it the plainest buddy system with the same jobs, a page at a time (plain_buddy.cpp).
"""

import resource
import subprocess

from figures import ROOT, figure

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.frames import load_mix
from pagelens.machine import load_machine

JOBS = 100
PLAIN_BUDDY = ROOT / "build" / "bench" / "bench" / "plain_buddy"


def ageing_seconds(grain: int) -> float:
    """User time of one core."""
    machine = load_machine("cori-knl-cache")
    state = _core.NodeState(_core.linux_layout(machine.frames, 1, machine.cores.count.value), grain)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    state.age(JOBS, load_mix("cori").to_core(), _core.Random(1, 0, 0, _core.Stream.history))
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def plain_seconds() -> float:
    """User time of the yardstick."""
    mix = load_mix("cori")
    sizes = (mix.smallest_job_bytes / FRAME_BYTES, mix.largest_job_bytes / FRAME_BYTES)
    shape = (mix.processes, mix.longest_turn_pages, mix.cache_interval_pages, mix.cache_share)
    command = (PLAIN_BUDDY, load_machine("cori-knl-cache").frames, JOBS, *sizes, *shape)
    found = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return float(found.stdout)


def main() -> None:
    """Entry point."""
    coarse, exact, plain = ageing_seconds(64), ageing_seconds(1), plain_seconds()
    beside = f"plain buddy {plain:.1f} s; wanted where it takes 55 s"
    figure(f"node history: {JOBS} jobs, grain 1", exact, "s", "<= 30", beside)
    figure(
        f"node history: {JOBS} jobs, grain 1 over a plain buddy",
        exact / plain,
        "x",
        "<= 0.545",
        "30 s of 55 s",
    )
    figure(f"node history: {JOBS} jobs, grain 64", coarse, "s", "<= 1.3")
    figure(f"node history: {JOBS} jobs, grain 64 over grain 1", exact / coarse, "x", ">= 24")
    most_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figure(f"node history: {JOBS} jobs, grain 1, memory", most_memory, "MiB", "<= 1024")


if __name__ == "__main__":
    main()
