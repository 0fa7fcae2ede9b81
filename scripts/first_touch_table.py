"""Writes docs/results/first-touch.md: OpenMP programs whose data one thread initialises, on five machines."""

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np
from results import commit, write_table

import pagelens as pl
from pagelens.accesses.workload import Workload
from pagelens.frames import Node, find_policy, parse_history
from pagelens.machine import Machine, load_machine
from pagelens.replay import Run, Simulation


@dataclass(frozen=True)
class Program:
    """One of the examples: its arguments, the phase that counts, and what of its traffic it writes."""

    name: str
    arguments: str
    phase: str
    written: float  # share of lines; the rule takes none for the solvers, whose matrix is only read


PROGRAMS = (
    Program("triad", "384 3 1", "triad", 1 / 4),
    Program("cg", "128 4", "solve", 0.0),
    Program("fe", "128 4", "solve", 0.0),
)
MACHINES = ("skx-6140-2s", "clx-6240-2s", "icx-8360y-2s", "genoa-9654-2s", "milan-7763-2s")
MOST_THREADS = 72
WHOLE = ("touch", "interleave", "replicate")
OBJECTS = 2  # that have the most remote lines
INTRODUCTION = """How much slower are three programs of `examples/` if one thread initialises their data?
`python scripts/first_touch_table.py` wrote this page at commit {commit}. It traces `triad-omp`, `cg-omp` and
`fe-omp` with as many threads as the machine has cores, {most} at most, and simulates each on one fresh node
of each machine. *Rule* is what a machine's matrix of bandwidths says of two equal nodes, from which all cores
move equally: the time with all data on one node over the time with all data at home ([numa.md](../numa.md)).
The rule takes a quarter of the triad's lines as written, and none of the solvers', whose matrix is only read.
*Obtained* is the same ratio of the triad and of the solve in the model: the gain of `touch`. Then come
the two best remedies of {whole}, and the best one for a single object: `touch` for one of the {objects}
objects that have the most remote lines."""
AFTER = """
Twelve of the fifteen rows are within a tenth of their rule. Why are the others not?

- `cg-omp` and `fe-omp` on `genoa-9654-2s`: the 24 L3s hold the matrix, so they serve three quarters of the
  lines of CG's solve and 89% of those of FE's (counted). Both solves take as long as their instructions,
  wherever their data lie.
- `fe-omp` on `icx-8360y-2s`: the solve writes its vectors, which are 18% of the lines that memory moves.
  With these, the rule says 2.42.

Before large caches were refilled before each stretch
([node-attribution.md](../decisions/node-attribution.md)), the triad was obtained as 1.73 on `icx-8360y-2s`
and 1.78 on `milan-7763-2s`, and CG as 1.58 there.
"""


def rule(machine: Machine, written: float) -> float:
    """Return how much slower two equal nodes are if one has all data, by their bandwidths."""
    topology = machine.topology
    own, other = topology.bandwidth[0]
    memory = (1 - written + topology.write_cost[0] * written) / own
    link = max(1 - written, written) / 2 / other
    return float(max(memory, link) / (memory / 2))


def traced(program: Program, threads: int, examples: Path, folder: Path) -> Workload:
    """Return the program's trace with so many threads, which is made if it is not there."""
    trace = folder / f"{program.name}-{threads}.trace"
    if trace.exists():
        return pl.trace(trace, progress=False)
    command = [str(examples / f"{program.name}-omp"), *program.arguments.split()]
    with_threads = ["env", f"OMP_NUM_THREADS={threads}", *command]
    return pl.record(with_threads, trace, accesses=0, progress=False)


def remote_objects(run: Run, phase: int) -> list[int]:
    """Return the objects with the most lines between the nodes."""
    assert run.numa is not None
    lines = run.numa.reads[phase] + run.numa.writes[phase]
    remote = lines.sum(axis=(1, 2)) - np.trace(lines, axis1=1, axis2=2)
    return [int(each) for each in np.argsort(-remote, kind="stable")[:OBJECTS] if remote[each] > 0]


def row(program: Program, machine: Machine, workload: Workload) -> list[str]:
    """Return a row of the table."""
    simulation = Simulation(workload, machine, 1)
    node = Node(machine, 0, 0, history=parse_history("boot; run"))
    phase = list(workload.phases).index(program.phase)

    def run_of(policy: str) -> Run:
        return simulation.run(simulation.place(find_policy(policy), node))

    aged = run_of("aged")
    names = [workload.objects[number].name for number in remote_objects(aged, phase)]
    single = [f"touch:{name}" for name in names]
    first_s = float(aged.times.time_s[phase])
    gains = {policy: first_s / float(run_of(policy).times.time_s[phase]) for policy in (*WHOLE, *single)}

    def best(policies: tuple[str, ...] | list[str], count: int) -> str:
        ordered = sorted(policies, key=lambda policy: -gains[policy])[:count]
        return ", ".join(f"`{policy}` {gains[policy]:.2f}" for policy in ordered)

    cells = [
        f"{rule(machine, program.written):.2f}",
        f"{gains['touch']:.2f}",
        best(WHOLE, 2),
        best(single, 1),
    ]
    print(program.name, machine.name, *cells, flush=True)
    return [f"`{program.name}-omp`", f"`{machine.name}`", *cells]


def rows_of(program: Program, examples: Path) -> list[list[str]]:
    """Return the rows of a program."""
    with tempfile.TemporaryDirectory() as folder:
        machines = [load_machine(name) for name in MACHINES]
        threads = [min(machine.cores.count.value, MOST_THREADS) for machine in machines]
        return [
            row(program, machine, traced(program, count, examples, Path(folder)))
            for machine, count in zip(machines, threads, strict=True)
        ]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=Path, default=Path("build/examples"))
    parser.add_argument("--output", type=Path, default=Path("docs/results/first-touch.md"))
    arguments = parser.parse_args()
    with ProcessPoolExecutor(len(PROGRAMS)) as pool:
        of_programs = list(pool.map(rows_of, PROGRAMS, repeat(arguments.examples)))
    rows = [row for rows in of_programs for row in rows]
    write_table(
        arguments.output,
        "Data that one thread initialises",
        INTRODUCTION.format(
            commit=commit(),
            most=MOST_THREADS,
            whole=", ".join(f"`{each}`" for each in WHOLE),
            objects=OBJECTS,
        ),
        ("program", "machine", ">rule", ">obtained", "best remedies", "best for one object"),
        rows,
        AFTER,
    )


if __name__ == "__main__":
    main()
