"""A fleet at full scale: MiniFE of 17.6 GB on 256 nodes of 96 GiB, each with its own history, four policies.

Processor time, as in bench_explain.py: a minute and a half on two cores is 180 s of it.
"""

import resource
from pathlib import Path

from figures import figure

from pagelens.accesses.declared import declared
from pagelens.frames import Node, parse_history
from pagelens.machine import load_machine
from pagelens.reproduce.context import Scale, StudyContext
from pagelens.reproduce.fleet import run_policies

NODES, BYTES = 256, 17_600_000_000
POLICIES = ("aged", "aged+intel-zonesort", "aged+zonesort", "random")


def main() -> None:
    """Entry point."""
    machine, history = load_machine("cori-knl-cache"), parse_history("boot; age(mix=cori); run")
    workload = declared("minife-solve", BYTES, machine.cores.count.value)
    context = StudyContext(Scale.FULL, 1, Path())

    def simulate(node: int) -> None:
        run_policies(POLICIES, machine, workload, Node(machine, 1, node, history=history), context)

    context.map(simulate, range(NODES))
    used = resource.getrusage(resource.RUSAGE_SELF)
    name = f"fleet: MiniFE of 17.6 GB, {NODES} nodes, {len(POLICIES)} policies"
    figure(name, used.ru_utime + used.ru_stime, "s", "<= 180", "processor time, histories included")
    figure(f"{name}, memory", used.ru_maxrss / 1024, "MiB", "<= 4096")


if __name__ == "__main__":
    main()
