"""An ensemble: a program on many nodes under many policies, kept on disk as it grows."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path

import pagelens
from pagelens.accesses.workload import Workload
from pagelens.address.units import FRAME_BYTES
from pagelens.ensemble.code_digest import code_digest
from pagelens.ensemble.growing import GrowingEnsemble, Judge
from pagelens.ensemble.result import TABLES, Ensemble, Tables, baseline_of
from pagelens.ensemble.run import Progress, node_threads
from pagelens.ensemble.scale import Scaled
from pagelens.ensemble.shards import ShardStore, key_of
from pagelens.ensemble.simulate import NodeSimulation
from pagelens.errors import UsageError
from pagelens.frames import DEFAULT_HISTORY, Policy, Step, parse_history
from pagelens.machine import Machine
from pagelens.replay import Simulation
from pagelens.units import format_binary_size, format_size

ATTRIBUTED_NODES = 2  # without a memory-side cache each set of mechanisms is a replay of its own


def run_ensemble(
    workload: Workload,
    scaled: Scaled,
    policies: Mapping[str, Policy],
    nodes: int,
    seed: int,
    output: Path,
    phase: str | None = None,
    history: Sequence[Step] | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    attributed: int = ATTRIBUTED_NODES,
    judge: Judge | None = None,
    look: Callable[[Ensemble], None] | None = None,
) -> Ensemble:
    """Run `scaled.ranks` copies of the workload on nodes 0 .. nodes-1, under each policy from equal states.

    Rows depend on all arguments but `executor` and `progress`; what is complete under `output` for the same
    arguments are read, not run. `phase` chooses what is explained later, and changes no row. Without a
    memory-side cache, or with an L3 before it, the first `attributed` nodes are also replayed under the
    baseline without their mechanisms. With a `judge` the nodes come in ROUNDS, until it has enough of them
    under each policy. `look` sees the bounds of the time at first, and then what there is, now and then.
    Raises UsageError where the job does not fit the machine, Interrupted on Ctrl-C: its `partial` is the
    Ensemble of what is complete, None for nothing.
    """
    machine, ranks = scaled.machine, scaled.ranks
    check_fits(workload, machine, ranks)
    check_applicable(workload, machine, policies)
    steps = tuple(history) if history is not None else parse_history(DEFAULT_HISTORY)
    cores_used = (
        machine.cores.count.value
        if scaled.factor < 1
        else min(machine.cores.count.value, ranks * workload.threads)
    )
    simulation = Simulation(workload, machine, ranks, seed=seed, cores_used=cores_used, vary_assumed=True)
    of_piece = NodeSimulation(simulation, policies, steps, scaled.factor)
    key = ensemble_key(workload, scaled, policies, seed, steps)
    store = ShardStore(output, key)
    bounds = simulation.bounds()

    def ensemble(counts: Mapping[str, int], tables: Tables) -> Ensemble:
        most = counts[baseline_of(policies)]
        return Ensemble(
            tables=tables,
            workload=workload,
            machine=machine,
            policies={name: policies[name] for name in policies if counts[name]},
            nodes=most,
            seed=seed,
            ranks=ranks,
            cores_used=cores_used,
            sampling=simulation.sampling,
            phase=phase,
            scaled=scaled.factor if scaled.factor < 1 else None,
            bounds=bounds,
            history=steps,
            stopped={name: count for name, count in counts.items() if 0 < count < most},
        )

    with node_threads() as threads:  # which start when they are used
        growing = GrowingEnsemble(of_piece, store, ensemble, attributed, executor or threads, progress, look)
        return growing.grow(nodes, judge)


def ensemble_key(
    workload: Workload,
    scaled: Scaled,
    policies: Mapping[str, Policy],
    seed: int,
    history: Sequence[Step],
    more_code: Sequence[str] = (),
) -> str:
    """Hash of all that decides the rows of a node; `more_code` names rooms whose code decides besides."""
    machine = scaled.machine
    return key_of(
        {
            "version": pagelens.__version__,
            "workload": workload.digest,
            "machine": machine.model_dump(mode="json"),
            "policies": {name: [policy.steps, dict(policy.boot)] for name, policy in policies.items()},
            "settings": [policy.machine(machine).model_dump(mode="json") for policy in policies.values()],
            "seed": seed,
            "ranks": scaled.ranks,
            "history": [repr(step) for step in history],
            "scale": scaled.factor,
            "tables": {name: list(schema) for name, schema in TABLES.items()},
            "code": code_digest(*more_code),
        }
    )


def check_applicable(workload: Workload, machine: Machine, policies: Mapping[str, Policy]) -> None:
    """Raise UsageError unless the machine has the policies' settings.

    The program must also have what offsets move.
    """
    for name, policy in policies.items():
        try:
            workload.check_offset(policy.machine(machine), policy.offset_bytes)
        except UsageError as error:
            raise UsageError(f"--policies: '{name}': {error}") from None


def check_fits(workload: Workload, machine: Machine, ranks: int) -> None:
    """Raise UsageError unless `ranks` copies of the workload fit into the machine's memory."""
    memory, each = machine.frames * FRAME_BYTES, workload.footprint_bytes
    if workload.job_bytes(ranks) <= memory:
        return
    room = f"is more than the {format_size(memory)} of {machine.name}"
    if workload.source == "declared":  # its size is that of all ranks together
        raise UsageError(
            f"--size: {format_size(each * ranks)} {room}; name at most {format_binary_size(memory, 6)}, or "
            "a machine with more (pagelens machines)"
        )
    if workload.processes > 1:
        raise UsageError(
            f"--ranks: {ranks * workload.processes} ranks of {format_size(each * ranks)} in all {room}; "
            "choose another machine, or give fewer traces"
        )
    most = max(0, memory - workload.shared_bytes) // each
    remedy = f"use --ranks {most} or fewer, or a smaller problem" if most else "use a smaller problem"
    raise UsageError(f"--ranks: {ranks} x {format_size(each)} {room}; {remedy}")
