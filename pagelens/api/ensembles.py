"""Ensembles: a workload on many simulated nodes, under several placements of its pages."""

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pagelens.accesses.workload import Workload
from pagelens.api.workloads import Declared
from pagelens.ensemble import Ensemble as EnsembleTables
from pagelens.ensemble import Scaled, run_ensemble
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.explain.precision import left_to_chance
from pagelens.explain.remedies import default_policies
from pagelens.frames import Policy, Step, find_policy, parse_history
from pagelens.machine import Machine
from pagelens.progress import progress_bar
from pagelens.spelling import nearest
from pagelens.units import format_share

WHOLE_RUN = "all"
_DIMENSIONS = ("policy", "node", "phase")


class Ensemble(EnsembleTables):
    """The rows of all simulated nodes: `placements`, `objects`, `collisions`, `counterfactuals`, `slots`."""

    @property
    def placements(self) -> pl.DataFrame:
        """A row for each node, policy and phase: counts in lines of 64 B of the node, times in seconds."""
        return self.tables.placements

    @property
    def objects(self) -> pl.DataFrame:
        """A row for each node, policy, phase and object: lines that reach the memory, and their misses."""
        return self.tables.objects

    def to_pandas(self) -> Any:
        """`placements` as a pandas DataFrame. Raises Failure where pandas is not installed."""
        _require("pandas", "to_pandas")
        return self.placements.to_pandas()

    def to_xarray(self) -> Any:
        """`placements` as an xarray Dataset: each count and time has the shape (policy, node, phase).

        Raises Failure where xarray is not installed.
        """
        xarray = _require("xarray", "to_xarray")
        rank = {name: place for place, name in enumerate(self.policies)}
        phases = list(self.workload.phases)
        order = {name: place for place, name in enumerate(phases)}
        rows = self.placements.sort(
            pl.col("policy").replace_strict(rank), "node", pl.col("phase").replace_strict(order)
        )
        shape = (len(rank), self.nodes, len(phases))
        columns = {
            name: (_DIMENSIONS, rows[name].to_numpy().reshape(shape))
            for name in rows.columns
            if name not in _DIMENSIONS
        }
        axes = {"policy": list(rank), "node": range(self.nodes), "phase": phases}
        return xarray.Dataset(columns, coords=axes)

    def __repr__(self) -> str:
        return (
            f"<Ensemble: {self.workload.name} x {self.ranks} on {self.machine.name}, {self.nodes} nodes, "
            f"policies {', '.join(self.policies)}>"
        )


def simulate(
    workload: Workload | Declared,
    machine: Machine | Scaled,
    policies: Iterable[str | Policy] | None = None,
    nodes: int = 64,
    ranks: int | None = None,
    history: str | Sequence[Step] | None = None,
    seed: int = 1,
    output: str | os.PathLike[str] | None = None,
    phase: str | None = None,
    progress: bool = True,
    precision: float | None = None,
) -> Ensemble:
    """Runs copies of the workload on simulated nodes, under each policy from the same state of the node.

    `policies` are names (docs/remedies.md) or Policy objects of your own; without them, those that can make
    a difference on the machine are compared. `ranks` copies run on each node; without it as many as its
    cores run, and one copy of declared loops. A `Scaled` machine states its own number. `history` says what
    the nodes went through before, as a text ("boot; age(jobs=30); run", docs/frames.md) or as steps. `seed`
    decides every random draw: equal arguments give equal rows. `phase` chooses the phase that `explain`
    looks at ("all": the whole run).

    With a `precision` (0.02: 2%), nodes come in rounds, and no more follow once the choice of nodes moves no
    median, and no gain in the median, by more than that. Few nodes say little about the slow ones: 8 miss a
    kind of node that is one in twenty with a chance of 66%.

    Results are kept in `output`, or for as long as this process lives. After Ctrl-C the same call goes on
    with the nodes that are missing, and the exception's `partial` is the Ensemble of those that are done
    (None if there are none). Nothing is kept of a policy written in Python, since its code may change.

    Raises UsageError for what does not exist or does not fit the machine, and Interrupted on Ctrl-C.

    >>> w, m = workload("stream-triad", size="300MB"), machine("cori-knl-cache")
    >>> e = simulate(w, m, policies=["random"], nodes=2, progress=False)
    >>> e.placements.select("node", "policy").unique().height
    2
    """
    source, scaled = _fill(workload, machine, ranks)
    scaled.machine.require_linux_pages("simulate")
    chosen = _policies(policies) if policies is not None else default_policies(source, scaled.machine)
    steps = parse_history(history, "history") if isinstance(history, str) else history
    phase = choose_phase(phase, source)
    if precision is not None and not 0 < precision <= 1:
        raise UsageError(f"precision: {precision}: a share is above 0 and at most 1, as in 0.02")
    own = not all(map(_comes_with_pagelens, chosen.values()))
    kept = Path(output) / "nodes" if output is not None else _kept_while_this_process_lives()
    folder = Path(tempfile.mkdtemp(prefix="pagelens-")) if own else kept

    def run(count: int, **others: Any) -> Ensemble:
        found = run_ensemble(source, scaled, chosen, count, seed, folder, phase, steps, **others)
        return Ensemble(**vars(found))

    try:
        with progress_bar(not progress) as bar:
            if precision is None:
                return run(nodes, progress=bar)

            def enough(found: EnsembleTables) -> bool:
                left = left_to_chance(found)
                bar.begin(f"nodes (medians to {format_share(left)}, wanted: {format_share(precision)})")
                return left <= precision

            return run(nodes, progress=bar, enough=enough)
    except Interrupted as error:
        done = _first_missing(error.completed)
        error.partial = run(done) if done else None
        raise
    finally:
        if own:
            shutil.rmtree(folder, ignore_errors=True)


def _fill(
    workload: Workload | Declared, machine: Machine | Scaled, ranks: int | None
) -> tuple[Workload, Scaled]:
    if isinstance(machine, Scaled):
        return fill_node(workload, machine.machine, machine.ranks)[0], machine
    source, copies = fill_node(workload, machine, ranks)
    return source, Scaled(machine, copies)


def fill_node(
    workload: Workload | Declared, machine: Machine, ranks: int | None, name: str = "ranks"
) -> tuple[Workload, int]:
    """One process of the workload, and how many of them run on a node. Raises UsageError for too many.

    `name` is that of the argument in errors. A process needs a core for each of its threads.
    """
    if isinstance(workload, Declared):
        copies = check_ranks(ranks, machine, 1, name) or 1
        return workload.on(machine, copies), copies
    cores = machine.cores.count.value
    return workload, check_ranks(ranks, machine, workload.threads, name) or max(1, cores // workload.threads)


def check_ranks(ranks: int | None, machine: Machine, threads: int, name: str = "ranks") -> int | None:
    """`ranks`, if the machine has a core for each thread of each rank; else raises UsageError."""
    cores = machine.cores.count.value
    most = max(1, cores // threads)
    if ranks is not None and not 1 <= ranks <= most:
        each = "one thread" if threads == 1 else f"{threads} threads"
        raise UsageError(
            f"{name}: {ranks} x {each} is more than the {cores} cores of {machine.name}; name 1 to {most}"
        )
    return ranks


def choose_phase(name: str | None, workload: Workload, argument: str = "phase") -> str | None:
    """The phase to explain, None for the whole run. Without a name, declared loops have a measured phase.

    `argument` is that of `name` in errors. Raises UsageError for a phase that the workload does not have.
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
    """Whether the policy's name says all of it."""
    try:
        return policy == find_policy(policy.name)
    except UsageError:
        return False


def _first_missing(completed: frozenset[int]) -> int:
    return next(node for node in range(len(completed) + 1) if node not in completed)


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
