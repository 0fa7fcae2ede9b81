"""Writes docs/results/frames.md: conflict shares after histories, published beside obtained, and times."""

import argparse
import resource
import time
from pathlib import Path

import numpy as np
from results import write_table

from pagelens import _core
from pagelens.frames import Node, load_mix, parse_history
from pagelens.frames.live_node import LiveNode
from pagelens.machine import load_machine

KNL = load_machine("cori-knl-cache")
JOBS = (8 * 2**30, 15.5 * 2**30, 17.6e9)  # bytes
PROCESSES = 68
AGED = "age(jobs=30)"

# The node, its history, and the shares that an experiment with a bare buddy allocator gave (96 GiB node,
# 16 GiB direct-mapped cache, jobs of 4 to 80 GB by 68 processes); none: this project's own rows.
ROWS = (
    ("fresh boot", "boot", "0, 0, .048"),
    ("after one large job (66-79 GB)", "job(72GB)", ".33-.35, .57-.58, .59-.60"),
    ("after 30 jobs, 4 KiB pages", AGED, ".34, .58, .60"),
    (
        "... caches dropped, all merged, sorted",
        f"{AGED}; drop_caches(left=0); compact; drain; zonesort(address)",
        "0, 0, .048",
    ),
    (
        "... sorted, .02% of memory left in the page cache",
        f"{AGED}; drop_caches(left=0.02%); zonesort(address)",
        ".33, .57, .59",
    ),
    (
        "... sorted, .2% left",
        f"{AGED}; drop_caches(left=0.2%); zonesort(address)",
        ".33, .57, .59",
    ),
    (
        "... caches dropped and sorted, per-cpu lists as they are",
        f"{AGED}; drop_caches(left=0); zonesort(address)",
        "",
    ),
    ("... .02% pinned, Intel's rule", f"{AGED}; drop_caches(0.02%, 100%); compact; zonesort(intel)", ""),
    ("... .02% pinned, ours", f"{AGED}; drop_caches(0.02%, 100%); compact; zonesort", ""),
    (
        "... .2% movable, compacted, Intel's rule",
        f"{AGED}; drop_caches(0.2%, 0); compact; zonesort(intel)",
        "",
    ),
    ("... .2% movable, ours, without compaction", f"{AGED}; drop_caches(0.2%, 0); zonesort", ""),
    ("shuffled at boot", "boot(shuffle=on)", ""),
    ("shuffled at boot, after 30 jobs", f"boot(shuffle=on); {AGED}", ""),
)


def begun(history: str, grain: int, seed: int) -> LiveNode:
    """The node after the beginning of a history, which rows share."""
    return Node(KNL, seed, 0, grain, parse_history(history)).aged


def shares(node: LiveNode, rest: str, seed: int) -> list[float]:
    """Returns the shares of jobs of the three sizes, which the kernel places after the rest of a history."""
    node = node.branch()
    for position, step in enumerate(parse_history(rest)[1:] if rest else (), 2):
        step.run(node, _core.Random(seed, 0, position, _core.Stream.history))
    pages = int(max(JOBS)) // 4096 // PROCESSES + 1
    frames = _core.place_by_kernel(node.state, 0).first_frames(PROCESSES, pages)
    found = []
    for size in JOBS:
        population = np.bincount(frames[: int(size) // 4096] % KNL.slots, minlength=KNL.slots)
        found.append(population[population > 1].sum() / (int(size) // 4096))
    return found


def mean_shares(grain: int, seeds: int) -> dict[str, str]:
    """Returns the means over several nodes, by history."""
    found: dict[str, list[list[float]]] = {history: [] for _, history, _ in ROWS}
    for seed in range(1, seeds + 1):
        nodes: dict[str, LiveNode] = {}
        for history in found:
            first, _, rest = history.partition("; ")
            if first not in nodes:
                nodes[first] = begun(first, grain, seed)
            found[history].append(shares(nodes[first], rest, seed))
    return {
        history: ", ".join(f"{share:.3f}".lstrip("0") if share else "0" for share in np.mean(of, axis=0))
        for history, of in found.items()
    }


def ageing_time(grain: int, jobs: int) -> float:
    """Processor seconds that 100 jobs take, from `jobs` of them."""
    state = _core.NodeState(_core.linux_layout(KNL.frames, 1, KNL.cores.count.value), grain)
    random = _core.Random(1, 0, 0, _core.Stream.history)
    begin = time.process_time()
    state.age(jobs, load_mix("cori").to_core(), random)
    return (time.process_time() - begin) * 100 / jobs


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=100, help="that the times are taken from")
    parser.add_argument("--nodes", type=int, default=4, help="that the shares are means of")
    arguments = parser.parse_args()
    exact, coarse = ageing_time(1, arguments.jobs), ageing_time(64, arguments.jobs)
    most_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    at_one, at_64 = (mean_shares(grain, arguments.nodes) for grain in (1, 64))
    rows = [
        (name, f"`{history}`", published, at_one[history], at_64[history])
        for name, history, published in ROWS
    ]
    write_table(
        arguments.output,
        "Conflict shares after histories",
        "How many pages of a job conflict, after which history of its node? The table has the share of the\n"
        "job's pages whose slot holds another of its pages, counted on modelled frames. Each cell has three\n"
        "shares, for jobs of 8 GiB, 15.5 GiB and 17.6e9 B by 68 processes. The node has 96 GiB and a\n"
        f"direct-mapped cache of 16 GiB. The shares are means of {arguments.nodes} nodes.\n"
        "*Experiment* is a bare buddy allocator without zones or per-cpu lists.\n"
        "`python scripts/frames_table.py --output docs/results/frames.md` wrote this page.\n\n"
        f"To simulate 100 jobs of 4 to 80 GiB takes {exact:.1f} s of processor time at grain 1, and\n"
        f"{coarse:.2f} s at grain 64. All of this takes at most {most_memory:.0f} MiB of memory (measured).",
        ("node", "history", "experiment", "grain 1", "grain 64"),
        rows,
    )


if __name__ == "__main__":
    main()
