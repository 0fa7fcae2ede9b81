"""What the history of a node costs: 96 GiB, aged by 100 jobs of 4 to 80 GiB, in user time and memory."""

import resource

from figures import figure

from pagelens import _core
from pagelens.frames import load_mix
from pagelens.machine import load_machine

JOBS = 100


def ageing_seconds(grain: int) -> float:
    """User time of one core."""
    machine = load_machine("cori-knl-cache")
    state = _core.NodeState(_core.linux_layout(machine.frames, 1, machine.cores.count.value), grain)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    state.age(JOBS, load_mix("cori").to_core(), _core.Random(1, 0, 0, _core.Stream.history))
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def main() -> None:
    """Entry point."""
    coarse, exact = ageing_seconds(64), ageing_seconds(1)
    figure(f"node history: {JOBS} jobs, grain 1", exact, "s", "<= 30")
    figure(f"node history: {JOBS} jobs, grain 64", coarse, "s", "<= 1.3")
    figure(f"node history: {JOBS} jobs, grain 64 over grain 1", exact / coarse, "x", ">= 24")
    most_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figure(f"node history: {JOBS} jobs, grain 1, memory", most_memory, "MiB", "<= 1024")


if __name__ == "__main__":
    main()
