"""Writes pagelens/site/fleet_model/ageing.csv: how Cori's modelled nodes slow down from job to job.

The nodes, the mix of jobs and the sorting are those of the study `cori-stream`. Each row is one node after
one job: the slowdown of STREAM, relative to nodes that have just booted, and of MiniFE, relative to its
fastest run.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.files import write_whole
from pagelens.frames import load_mix, parse_history
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import fleet_grain
from pagelens.frames.steps import Age, Step
from pagelens.machine import load_machine
from pagelens.progress import progress_bar
from pagelens.reproduce.context import Scale, StudyContext
from pagelens.reproduce.fleet import run_on
from pagelens.reproduce.studies.cori_minife import PUBLISHED_BYTES, WORKLOAD
from pagelens.reproduce.studies.cori_stream import BYTES, MACHINE, SORT

MIX = "cori"
POLICIES = {"unsorted": "", "intel": SORT, "sorted": "drop_caches; compact; zonesort"}
TABLE = Path(__file__).parents[1] / "pagelens" / "site" / "fleet_model" / "ageing.csv"


def main() -> None:
    """Simulates the nodes in a thread a core."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--output", type=Path, default=TABLE)
    given = parser.parse_args()
    with progress_bar(what="lives") as report:
        context = StudyContext(Scale.FULL, given.seed, Path(), report)
        rows = _rows(context, given.nodes, given.jobs, given.policies)
        table = pl.DataFrame(list(rows), orient="row", schema=["policy", "node", "job", "stream", "job_time"])
    fresh = pl.col("stream").filter(pl.col("job") == 0).median()
    relative = table.with_columns(
        (fresh / pl.col("stream")).round(4).alias("stream_slowdown"),
        (pl.col("job_time") / pl.col("job_time").min()).round(4).alias("job_slowdown"),
    ).drop("stream", "job_time")
    write_whole(given.output, relative.write_csv)


def _rows(
    context: StudyContext, nodes: int, jobs: int, policies: list[str]
) -> Iterator[tuple[str, int, int, float, float]]:
    machine = load_machine(MACHINE)
    cores = machine.cores.count.value
    stream, minife = declared("stream-triad", BYTES, cores), declared(WORKLOAD, PUBLISHED_BYTES, cores)
    sorting = {name: parse_history(steps)[1:] if steps else () for name, steps in POLICIES.items()}

    def live(life: tuple[str, int]) -> list[tuple[str, int, int, float, float]]:
        policy, node = life
        state = LiveNode.fresh(machine, fleet_grain(machine.frames), 1.0, None)
        position = 0

        def take(*steps: Step) -> None:
            nonlocal position
            for step in steps:
                step.run(state, _core.Random(context.seed, node, position, _core.Stream.history))
                position += 1

        found = []
        for job in range(jobs + 1):
            if job:
                take(Age(1, load_mix(MIX)))
            take(*sorting[policy])
            placement = _core.place_by_kernel(state.state, 0)
            bandwidth = run_on(machine, stream, placement, context, node).bandwidth
            found.append(
                (policy, node, job, bandwidth, run_on(machine, minife, placement, context, node).time_s)
            )
        return found

    lives = [(policy, node) for node in range(nodes) for policy in policies]
    for found in context.map(live, lives):
        yield from found


if __name__ == "__main__":
    main()
