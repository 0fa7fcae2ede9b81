"""Ensembles: a workload on many simulated nodes, under several placements of its pages."""

import atexit
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pagelens.accesses.job import JobWorkload
from pagelens.accesses.trace import TraceWorkload
from pagelens.accesses.workload import Workload
from pagelens.api.workloads import Declared
from pagelens.ensemble import Ensemble as EnsembleTables
from pagelens.ensemble import Scaled, check_fits, run_ensemble
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.explain.precision import DEFAULT_PRECISION, ByPrecision
from pagelens.explain.remedies import default_policies
from pagelens.explain.so_far import so_far
from pagelens.frames import Policy, Step, find_policy, parse_history
from pagelens.machine import Machine
from pagelens.progress import progress_bar
from pagelens.spelling import nearest

WHOLE_RUN = "all"
MOST_NODES = 64  # the most nodes if the precision decides how many
_DIMENSIONS = ("policy", "node", "phase")


class Ensemble(EnsembleTables):
    """The rows of all simulated nodes: `placements`, `objects`, `collisions`, `counterfactuals`, `slots`."""

    @property
    def placements(self) -> pl.DataFrame:
        """One row for each node, policy and phase: counts in lines of 64 B of the node, times in seconds."""
        return self.tables.placements

    @property
    def objects(self) -> pl.DataFrame:
        """One row for each node, policy, phase and object: lines that reach the memory, and their misses."""
        return self.tables.objects

    def to_pandas(self) -> Any:
        """Return `placements` as a pandas DataFrame. Raises Failure if pandas is not installed."""
        _require("pandas", "to_pandas")
        return self.placements.to_pandas()

    def to_xarray(self) -> Any:
        """Return `placements` as an xarray Dataset: each count and time has the shape (policy, node, phase).

        Nodes that were not simulated under a policy are NaN. Raises Failure if xarray is not installed.
        """
        xarray = _require("xarray", "to_xarray")
        phases = list(self.workload.phases)
        axes: dict[str, list[Any]] = {
            "policy": list(self.policies),
            "node": list(range(self.nodes)),
            "phase": phases,
        }
        every = pl.DataFrame(
            list(itertools.product(*axes.values())),
            schema={name: self.placements.schema[name] for name in _DIMENSIONS},
            orient="row",
        )
        rows = every.join(self.placements, on=_DIMENSIONS, how="left", maintain_order="left")
        shape = tuple(map(len, axes.values()))
        columns = {
            name: (_DIMENSIONS, rows[name].to_numpy().reshape(shape))
            for name in rows.columns
            if name not in _DIMENSIONS
        }
        return xarray.Dataset(columns, coords=axes)

    def __repr__(self) -> str:
        ranks = self.ranks * self.workload.processes
        return (
            f"<Ensemble: {self.workload.name} x {ranks} on {self.machine.name}, {self.nodes} nodes, "
            f"policies {', '.join(self.policies)}>"
        )


def simulate(
    workload: Workload | Declared,
    machine: Machine | Scaled,
    policies: Iterable[str | Policy] | None = None,
    nodes: int | None = None,
    ranks: int | None = None,
    history: str | Sequence[Step] | None = None,
    seed: int = 1,
    output: str | os.PathLike[str] | None = None,
    phase: str | None = None,
    progress: bool = True,
    precision: float | None = None,
) -> Ensemble:
    """Run copies of the workload on simulated nodes, under each policy from the same state of the node.

    `policies` are names (docs/frames.md) or Policy objects of your own; without them, those that can make a
    difference on the machine are compared. `ranks` copies run on each node; without it as many as its cores
    run, and one copy of declared loops. A `Scaled` machine states its own number. `history` says what the
    nodes went through before, as a text ("boot; age(jobs=30); run", docs/frames.md) or as steps. `seed`
    decides every random draw: equal arguments give equal rows. `phase` chooses the phase that `explain` looks
    at ("all": the whole run).

    Nodes come in rounds. No more follow once the choice of nodes leaves less than `precision` (by default
    0.02: 2%) of each median to chance, or less than the choice of the simulated stretches of a run does, or
    after 64 nodes; policies that have enough stop before the others. With `nodes` exactly so many are
    simulated, or at most so many if a `precision` is given, too. Few nodes say little about rare slow ones:
    if one node in twenty is slow, all 8 can be fast with a chance of 66%.

    Results are kept in `output`, or for as long as this process lives. After Ctrl-C the same call goes on
    with what is missing, and the exception's `partial` is the Ensemble of what is done (None where there is
    no node under the baseline). Nothing is kept of a policy written in Python, since its code may change.

    Raises UsageError for what does not exist or does not fit the machine, and Interrupted on Ctrl-C.

    >>> w, m = workload("stream-triad", size="300MB"), machine("cori-knl-cache")
    >>> e = simulate(w, m, policies=["random"], nodes=2, progress=False)
    >>> e.placements.select("node", "policy").unique().height
    2
    """
    source, scaled = _fill(workload, machine, ranks)
    scaled.machine.require_linux_pages("simulate")
    check_fits(source, scaled.machine, scaled.ranks)  # before a job of terabytes is looked through
    chosen = (
        _policies(policies)
        if policies is not None
        else default_policies(source, scaled.machine, scaled.ranks)
    )
    steps = parse_history(history, "history") if isinstance(history, str) else history
    phase = choose_phase(phase, source)
    if precision is not None and not 0 < precision <= 1:
        raise UsageError(f"precision: {precision}: a share is above 0 and at most 1, as in 0.02")
    own = not all(map(_comes_with_pagelens, chosen.values()))
    kept = Path(output) / "nodes" if output is not None else _kept_while_this_process_lives()
    folder = Path(tempfile.mkdtemp(prefix="pagelens-")) if own else kept

    most, wanted = nodes or MOST_NODES, precision
    if nodes is None and precision is None:
        wanted = DEFAULT_PRECISION
    said: list[str] = []
    try:
        with progress_bar(not progress, "placements") as bar:

            def look(seen: EnsembleTables) -> None:
                said.append(so_far(seen))
                bar.say(said[-1])

            found = run_ensemble(
                source, scaled, chosen, most, seed, folder, phase, steps, progress=bar,
                judge=ByPrecision(wanted, most) if wanted else None,
                look=look if bar.seen else None,
            )  # fmt: skip
            return Ensemble(**vars(found))
    except Interrupted as error:
        if error.partial is not None:
            error.partial = Ensemble(**vars(error.partial))
        elif said:  # the bounds of the time are the answer so far
            raise Interrupted(f"{error}. {said[-1]}") from None
        raise
    finally:
        if own:
            shutil.rmtree(folder, ignore_errors=True)


def _fill(
    workload: Workload | Declared, machine: Machine | Scaled, ranks: int | None
) -> tuple[Workload, Scaled]:
    if isinstance(machine, Scaled) and isinstance(workload, JobWorkload):
        return workload, machine  # it says how often the job runs
    if isinstance(machine, Scaled):
        return fill_node(workload, machine.machine, machine.ranks)[0], machine
    source, copies = fill_node(workload, machine, ranks)
    return source, Scaled(machine, copies)


def fill_node(
    workload: Workload | Declared, machine: Machine, ranks: int | None, name: str = "ranks"
) -> tuple[Workload, int]:
    """Return one process of the workload, and how many of them run on a node.

    A process needs a core for each of its threads. A job of traced ranks is one such process: by default it
    runs alone, and with more `ranks` than were traced it is filled with copies of them. `name` is that of the
    argument in errors. Raises UsageError for too many processes.
    """
    if isinstance(workload, JobWorkload):
        return _filled(workload, machine, ranks, name)
    if isinstance(workload, Declared):
        copies = check_ranks(ranks, machine, 1, name) or 1
        return workload.on(machine, copies), copies
    if isinstance(shared := sharing_cores(workload, machine), JobWorkload):
        return _filled(shared, machine, ranks, name)
    cores = machine.cores.count.value
    return workload, check_ranks(ranks, machine, workload.threads, name) or max(1, cores // workload.threads)


def sharing_cores(workload: Workload, machine: Machine) -> Workload:
    """Return a job of this one process, whose helper threads share cores, if it has too many for the machine.

    The engine of memory-side caches lets threads take turns on its cores.
    """
    too_many = workload.threads > machine.cores.count.value and machine.memory_side_cache is None
    return JobWorkload([workload]) if too_many and isinstance(workload, TraceWorkload) else workload


def _filled(job: JobWorkload, machine: Machine, ranks: int | None, name: str) -> tuple[JobWorkload, int]:
    """Return a job of so many ranks, by default of the traced ones, and how often it runs on a node."""
    traced, cores = len(job.traces), machine.cores.count.value
    wanted = ranks or job.processes
    if wanted % job.processes:
        job = job.filled(wanted)
    copies = wanted // job.processes
    if (threads := copies * job.threads) > cores:
        if traced == 1:
            raise UsageError(
                f"{name if wanted > 1 else 'machine'}: {wanted} x {job.threads} working threads of "
                f"{job.name} are more than the {cores} cores of {machine.name}; choose a machine with as many"
            )
        raise UsageError(
            f"{name}: {wanted} ranks with {threads} threads in all are more than the {cores} cores of "
            f"{machine.name}; choose another machine, or give fewer than {traced} traces"
        )
    return job, copies


def check_ranks(ranks: int | None, machine: Machine, threads: int, name: str = "ranks") -> int | None:
    """Return `ranks` if the machine has a core for each thread of each rank; else raise UsageError."""
    cores = machine.cores.count.value
    most = max(1, cores // threads)
    if ranks is not None and not 1 <= ranks <= most:
        each = "one thread" if threads == 1 else f"{threads} threads"
        raise UsageError(
            f"{name}: {ranks} x {each} is more than the {cores} cores of {machine.name}; name 1 to {most}"
        )
    return ranks


def choose_phase(name: str | None, workload: Workload, argument: str = "phase") -> str | None:
    """Return the phase to explain, or None for the whole run.

    Without a name, declared loops have a measured phase. `argument` is that of `name` in errors. Raises
    UsageError for a phase that the workload does not have.
    """
    if name is None:
        return getattr(workload, "measured_phase", None)
    if name == WHOLE_RUN:
        return None
    if name not in workload.phases:
        near = nearest(name, [phase for phase in workload.phases if phase])
        offer = f"{workload.name} has {near or 'none'}"
        raise UsageError(f"{argument}: '{name}' is unknown; {offer}; '{WHOLE_RUN}' is the whole run")
    return name


def _policies(asked: Iterable[str | Policy]) -> Mapping[str, Policy]:
    if isinstance(asked, str):
        raise UsageError(f"policies: '{asked}' is one text; give a list, as ['aged', '2m']")
    found = [find_policy(each, "policies") if isinstance(each, str) else each for each in asked]
    if not found:
        raise UsageError("policies: the list is empty; name one at least, as ['aged', '2m']")
    return {policy.name: policy for policy in found}


def _comes_with_pagelens(policy: Policy) -> bool:
    """Return whether the policy is one of pagelens, so that its name says everything."""
    try:
        return policy == find_policy(policy.name)
    except UsageError:
        return False


@functools.cache
def _kept_while_this_process_lives() -> Path:
    folder = tempfile.mkdtemp(prefix="pagelens-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _require(package: str, method: str) -> Any:
    try:
        return __import__(package)
    except ImportError:
        raise Failure(f"{method}: needs the package '{package}'; pip install {package}") from None
