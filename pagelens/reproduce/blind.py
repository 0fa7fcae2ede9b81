"""Blind claims: figures of a paper that are obtained here before anybody looks at the published ones.

A file states the claims. A claim is a workload on simulated nodes, and the quantity that the paper reports.
Its digest covers everything that the file states of the simulation, and nothing that was published. The
record also holds digests of the code and of the inputs: the machines' values, the trace, the seed, the number
of nodes. So a record that was made before the figure was read proves that nothing was changed to meet it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens.accesses.declared import declared
from pagelens.accesses.trace import open_trace
from pagelens.accesses.workload import Workload
from pagelens.address.units import LINE_BYTES
from pagelens.ensemble import Ensemble, Scaled, run_ensemble
from pagelens.ensemble.code_digest import code_digest
from pagelens.errors import UsageError
from pagelens.files import write_whole
from pagelens.frames import find_policy, parse_history
from pagelens.machine import Machine, load_machine
from pagelens.reproduce.blind_claim import Claim, Paper, Quantity
from pagelens.reproduce.claim import Kind, Row, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.study import Findings, Study
from pagelens.statistics import spread
from pagelens.units import format_rate, format_time
from pagelens.values.toml_file import parse_toml, read_bytes

RECORD = "blind.json"


@dataclass(frozen=True)
class Obtained:
    """A figure, with the interval that the choice of nodes gives it, in the unit of its quantity."""

    figure: float
    low: float
    high: float

    def in_words(self, quantity: Quantity) -> str:
        """Return the figure and its interval as text, with the unit."""
        show = {"time": format_time, "bandwidth": format_rate, "row-conflict": format_time}.get(
            quantity, lambda each: f"{each:.3g}x"
        )
        return f"{show(self.figure)} ({show(self.low)} to {show(self.high)})"


@dataclass(frozen=True)
class _Setup:
    """A claim of a file in `folder`, with what it names. Each machine file and trace is read once."""

    claim: Claim
    folder: Path

    @cached_property
    def machine(self) -> Machine:
        """The claim's machine."""
        return self._machine(self.claim.machine)

    @cached_property
    def over_machine(self) -> Machine | None:
        """The machine that a speedup is over, if there is one."""
        return None if self.claim.over_machine is None else self._machine(self.claim.over_machine)

    def workload(self, machine: Machine) -> Workload:
        """Return the program as it runs on a machine. A declared one has a thread for each core."""
        if self.claim.trace is not None:
            return self._trace
        assert self.claim.workload is not None
        assert self.claim.size is not None
        threads = max(1, machine.cores.count.value // self.claim.ranks)
        return declared(self.claim.workload, self.claim.size // self.claim.ranks, threads)

    @cached_property
    def _trace(self) -> Workload:
        assert self.claim.trace is not None
        return open_trace(self.folder / self.claim.trace)

    def _machine(self, name: str) -> Machine:
        return load_machine(self.folder / name if name.endswith(".toml") else name)


def blind_study(path: Path) -> Study:
    """Return the study of a file. Raises UsageError, with file, line and key, for what cannot be read."""
    paper = parse_toml(Paper, read_bytes(path, "blind"), str(path), "docs/reproduce.md")
    setups = [_Setup(claim, path.parent) for claim in paper.claims]
    return Study(
        "blind-" + path.stem,
        f"Blind claims of {path.name}",
        paper.source,
        lambda context: Findings(tuple(_row(setup, context) for setup in setups), ()),
        "Obtained figures are medians over nodes, with the interval that the choice of nodes leaves.",
    )


def _row(setup: _Setup, context: StudyContext) -> Row:
    """Obtain the figure, record it, and only then compare it with the published one."""
    claim = setup.claim
    kept = _kept(context.directory / RECORD)  # before the simulations, which take longer
    obtained = _obtain(setup, context)
    before = _record(kept, context.directory / RECORD, claim, _inputs(setup, context), obtained)
    shown = value(
        obtained.in_words(claim.quantity), figure=obtained.figure, low=obtained.low, high=obtained.high
    )
    remark = f"{claim.why} {before}".strip()
    if claim.published is None:
        return Row(claim.claim, claim.where, Kind.SHOWN, value("not looked at yet"), shown, remark=remark)
    figure, within = claim.published.figure, claim.published.within
    return Row(
        claim.claim,
        claim.where,
        Kind.PREDICTED,
        value(claim.published.text or f"{figure:g}", figure=figure),
        shown,
        abs(obtained.figure / figure - 1) <= within,
        f"Holds within {within:.0%}. {remark}",
    )


def _obtain(setup: _Setup, context: StudyContext) -> Obtained:
    claim = setup.claim
    if claim.quantity == "row-conflict":
        seconds = _row_conflict(setup.machine)
        return Obtained(seconds, seconds, seconds)
    assert claim.policy is not None
    names = list(dict.fromkeys((claim.policy, claim.over or claim.policy)))
    other_machine = setup.over_machine
    own = _simulate(setup, setup.machine, names if other_machine is None else names[:1], context)
    time = _of_nodes(own, claim.policy, "time_s")
    match claim.quantity:
        case "time":
            found = spread(time, context.seed)
        case "bandwidth":
            lines = _of_nodes(own, claim.policy, "lines_of_memory")
            found = spread(LINE_BYTES * lines / time, context.seed)
        case "speedup":
            other = own
            if other_machine is not None:
                other = _simulate(setup, other_machine, names[-1:], context)
            found = spread(_of_nodes(other, names[-1], "time_s") / time, context.seed)
        case "spread":
            draws = np.random.default_rng(context.seed).choice(time, (2000, len(time)))
            low, high = np.quantile(draws.max(axis=1) / draws.min(axis=1), [0.025, 0.975])
            return Obtained(float(time.max() / time.min()), float(low), float(high))
    return Obtained(found.median, found.median_low, found.median_high)


def _simulate(setup: _Setup, machine: Machine, policies: list[str], context: StudyContext) -> Ensemble:
    """Run the claim's program on nodes of that machine."""
    claim, workload = setup.claim, setup.workload(machine)
    return run_ensemble(
        workload,
        Scaled(machine, claim.ranks),
        {policy: find_policy(policy, "policy") for policy in policies},
        _nodes(claim, context),
        context.seed,
        context.directory / claim.digest / machine.name,
        workload.measured_phase,
        parse_history(claim.history, "history"),
        progress=context.progress,
        attributed=0,
    )


def _nodes(claim: Claim, context: StudyContext) -> int:
    return context.pick(claim.nodes, min(claim.nodes, 2))


def _inputs(setup: _Setup, context: StudyContext) -> str:
    """Return a digest of the contents of what the claim names, of the seed and of the number of nodes."""
    machines = [machine for machine in (setup.machine, setup.over_machine) if machine is not None]
    stated = {
        "machines": [machine.model_dump(mode="json") for machine in machines],
        "program": None if setup.claim.policy is None else setup.workload(setup.machine).digest,
        "seed": context.seed,
        "nodes": _nodes(setup.claim, context),
    }
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:16]


def _row_conflict(machine: Machine) -> float:
    """Return how many seconds longer a load waits if another row of its bank is open than if its own is.

    One core loads two lines in turn and has one load under way, as tests that look for banks by time do.
    """
    if machine.dram is None:
        raise UsageError(f"row-conflict: machine {machine.name} has no section [dram]; name one that has")
    dram = machine.dram
    lines = np.arange(0, min(dram.size, 1 << 26), LINE_BYTES, dtype=np.uint64)
    banks, rows = dram.map()(lines)
    with_first = banks == banks[0]
    latency = {
        same_row: dram.simulator(outstanding=1)
        .run(np.tile([lines[0], lines[1:][(with_first & ((rows == rows[0]) == same_row))[1:]][0]], 2048))
        .read_latency_s
        for same_row in (True, False)
    }
    return latency[False] - latency[True]


def _of_nodes(ensemble: Ensemble, policy: str, column: str) -> NDArray[np.float64]:
    """Return a column of the measured phase, or of the whole run, for each [node]."""
    rows = ensemble.tables.placements.filter(pl.col("policy") == policy)
    if ensemble.phase is not None:
        rows = rows.filter(pl.col("phase") == ensemble.phase)
    if column == "lines_of_memory":
        behind_cache = "msc_reads" in rows.columns
        parts = ("msc_reads", "msc_writes") if behind_cache else ("dram_reads", "dram_writes")
        rows = rows.with_columns(pl.sum_horizontal(*parts).alias(column))
    return rows.group_by("node").agg(pl.col(column).sum()).sort("node")[column].to_numpy().astype(np.float64)


def _record(
    kept: dict[str, dict[str, Any]], path: Path, claim: Claim, inputs: str, obtained: Obtained
) -> str:
    """Keep what was obtained, and say whether that was before anybody looked at the published figure."""
    code, figure = code_digest(), float(f"{obtained.figure:.6g}")
    result = hashlib.sha256(f"{claim.digest} {inputs} {code} {figure}".encode()).hexdigest()[:16]
    first = kept.setdefault(
        claim.digest,
        {
            "claim": claim.claim,
            "inputs": inputs,
            "code": code,
            "obtained": figure,
            "digest": result,
            "blind": claim.published is None,
        },
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(kept, indent=1) + "\n"
    write_whole(path, lambda at: at.write_text(text))
    if not first["blind"]:
        return f"Digest {first['digest']}; the file stated the published figure when it was first obtained."
    changed = _changed(first, inputs, code, figure)
    return f"Digest {first['digest']}; first obtained before the file stated a published figure.{changed}"


def _changed(first: Mapping[str, Any], inputs: str, code: str, figure: float) -> str:
    """Return what differs from the first time, or nothing where the figure and its inputs are the same."""
    others = "another machine, trace, seed or number of nodes"
    if "inputs" not in first:  # records of older versions tell code and inputs apart by the code alone
        differences = [others if first["code"] == code else "other code"]
    else:
        parts = ((others, first["inputs"] != inputs), ("other code", first["code"] != code))
        differences = [part for part, differs in parts if differs]
    if first["obtained"] == figure and first.get("inputs", inputs) == inputs:
        return ""  # other code that gives the same figure has changed nothing
    return f" It was {first['obtained']:g} then, with {' and '.join(differences)}."


def _kept(path: Path) -> dict[str, dict[str, Any]]:
    """Return the record, by digests of claims. Raises UsageError for what is none."""
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_text())
        if all({"code", "obtained", "digest", "blind"} <= each.keys() for each in kept.values()):
            return dict(kept)
    except (OSError, ValueError, AttributeError):
        pass
    raise UsageError(f"blind: cannot read the record '{path}'; move it away to begin a new one")
