"""How the cost of a fleet grows with its nodes and with the job: a figure, and what ten thousand nodes take.

    python bench/scale.py

Each case runs in a process of its own, so that its memory can be seen. The work is that of bench_fleet.py:
MiniFE on nodes of 96 GiB, each with its own history, under four policies. What is measured is processor time.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
from bench_fleet import POLICIES

sys.path.append(str(Path(__file__).parents[1] / "scripts"))
from results import write_table

from pagelens.accesses.declared import declared
from pagelens.frames import Node, parse_history
from pagelens.machine import load_machine
from pagelens.report.drawing import FAINT, OTHERS, WIDTH, ShownFigure, drawing
from pagelens.reproduce.context import Scale, StudyContext
from pagelens.reproduce.fleet import run_policies

NODES = [(4.4, nodes) for nodes in (2, 4, 8, 16)]  # GB of the job, nodes
FOOTPRINTS = [(size, 4) for size in (2.2, 4.4, 8.8, 17.6)]
LARGE = [(17.6, nodes) for nodes in (4, 8, 16)]
RESULTS = Path(__file__).parents[1] / "docs/results"
FLEET, JOB_GB = 10_000, 17.6


def case(gigabytes: float, nodes: int) -> None:
    """Simulate so many nodes, and print processor seconds and MiB."""
    machine, history = load_machine("cori-knl-cache"), parse_history("boot; age(mix=cori); run")
    workload = declared("minife-solve", round(gigabytes * 1e9), machine.cores.count.value)
    context = StudyContext(Scale.FULL, 1, Path())

    def simulate(node: int) -> None:
        run_policies(POLICIES, machine, workload, Node(machine, 1, node, history=history), context)

    context.map(simulate, range(nodes))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))


def measured(gigabytes: float, nodes: int) -> tuple[float, float]:
    """Return processor seconds and MiB of a case."""
    words = [sys.executable, __file__, "--case", str(gigabytes), str(nodes)]
    seconds, mib = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    print(f"{gigabytes} GB, {nodes} nodes: {seconds:.1f} s, {mib:.0f} MiB", flush=True)
    return seconds, mib


def fitted(cases: list[tuple[float, int]], seconds: list[float]) -> tuple[np.ndarray, float]:
    """Return a, b, c of seconds = a + nodes (b + c GB) by least squares, and the worst relative error."""
    terms = np.array([(1, nodes, nodes * size) for size, nodes in cases])
    weights = 1 / np.array(seconds)
    found, *_ = np.linalg.lstsq(terms * weights[:, None], np.ones(len(seconds)), rcond=None)
    return found, float(np.abs(terms @ found * weights - 1).max())


def drawn(costs: dict[tuple[float, int], tuple[float, float]], line: np.ndarray) -> ShownFigure:
    """Return the figure: processor time over nodes and over the job, and memory over nodes."""
    figure = ShownFigure((WIDTH, 2.3), layout="constrained")
    by_nodes, by_size, memory = figure.subplots(1, 3)
    nodes, sizes = [n for _, n in NODES], [size for size, _ in FOOTPRINTS]
    for axes, xs, cases, name in (
        (by_nodes, nodes, NODES, "nodes"),
        (by_size, sizes, FOOTPRINTS, "GB of the job"),
    ):
        axes.plot(xs, [line @ (1, n, n * size) for size, n in cases], color=FAINT, linewidth=0.8)
        axes.plot(xs, [costs[each][0] for each in cases], "o", color=OTHERS[0], markersize=4)
        axes.set_xlabel(name)
        axes.set_ylabel("processor time, s")
        axes.set_xlim(0)
        axes.set_ylim(0, 1.1 * max(costs[each][0] for each in cases))
    memory.plot(nodes, [costs[each][1] for each in NODES], "o-", color=OTHERS[1], markersize=4, linewidth=0.8)
    memory.set_xlabel("nodes")
    memory.set_ylabel("memory, MiB")
    memory.set_xlim(0)
    memory.set_ylim(0, 1.1 * max(costs[each][1] for each in NODES))
    return figure


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", nargs=2, type=float, metavar=("GB", "NODES"), help="run one case alone")
    if (alone := parser.parse_args().case) is not None:
        case(alone[0], int(alone[1]))
        return
    costs = {each: measured(*each) for each in dict.fromkeys([*NODES, *FOOTPRINTS, *LARGE])}
    cases = list(costs)
    line, worst = fitted(cases, [costs[each][0] for each in cases])
    whole = float(line @ (1, FLEET, FLEET * JOB_GB))
    each = [costs[case][0] / case[1] for case in LARGE]
    figure = drawing("scale", "Cost of a fleet", "", lambda: drawn(costs, line))
    (RESULTS / "scale.svg").write_text(figure.svg)
    write_table(
        RESULTS / "scale.md",
        "Cost of a fleet",
        "What does it cost to simulate a fleet? Here MiniFE is simulated on KNL nodes of 96 GiB, each with\n"
        "a history of its own, under four policies. *GB* is the memory of the job. Processor time and\n"
        f"memory of the simulation are measured, on {os.cpu_count()} CPUs with a load of "
        f"{os.getloadavg()[1]:.1f} (five minutes).\n"
        "Written by `python bench/scale.py`.\n\n"
        "![Processor time over nodes and footprint, and memory over nodes](scale.svg)",
        (">GB", ">nodes", ">processor time, s", ">memory, MiB"),
        [(str(size), str(n), f"{s:.1f}", f"{mib:.0f}") for (size, n), (s, mib) in costs.items()],
        f"\nThe lines in the figure are {line[0]:.1f} s + nodes x ({line[1]:.2f} s + {line[2]:.3f} s/GB).\n"
        f"They are fitted to these cases, and meet each within {worst:.0%}. Extrapolated by them,\n"
        f"{FLEET:,} nodes with a job of {JOB_GB} GB take {whole / 3600:.1f} hours of processor time;\n"
        f"this was not run. A node of the cases with {JOB_GB} GB took {min(each):.2f} to\n"
        f"{max(each):.2f} s, so 256 of them take {256 * min(each):.0f} to {256 * max(each):.0f} s\n"
        f"of processor time, and {FLEET:,} take "
        f"{FLEET * min(each) / 3600:.1f} to {FLEET * max(each) / 3600:.1f} hours.\n",
    )


if __name__ == "__main__":
    main()
