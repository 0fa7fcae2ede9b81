"""Blind claims: figures of a paper that are obtained here before anybody looks at the published ones.

A file states the claims. A claim is a workload on simulated nodes, and the quantity that the paper reports.
Its digest covers everything that decides the obtained figure, and nothing that was published. So a record
that was made before the figure was read proves that nothing was changed to meet it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

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
from pagelens.reproduce.claim import NEAR, Kind, Row, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.study import Findings, Study
from pagelens.statistics import spread
from pagelens.units import format_rate, format_time
from pagelens.values.quantities import Bytes, Positive, PositiveFloat, Table
from pagelens.values.toml_file import parse_toml, read_bytes

RECORD = "blind.json"
Quantity = Literal["time", "bandwidth", "speedup", "spread"]


class Published(Table):
    """The published figure. It is absent until somebody has looked."""

    figure: PositiveFloat
    text: str = ""
    within: Annotated[float, Field(gt=0, lt=1)] = NEAR


class Claim(Table):
    """One figure of the paper, and the simulation that answers it."""

    claim: str
    where: str  # a table, figure or page of the document
    machine: str  # a name, or a machine file beside this file
    quantity: Quantity
    workload: str | None = None  # declared loops, with `size`
    size: Bytes | None = None
    trace: str | None = None  # or a trace file beside this file
    ranks: Positive = 1
    history: str = "boot; run"
    policy: str
    over: str | None = None  # the policy that `policy` is compared with, for `speedup`
    nodes: Positive = 16
    why: str = ""  # how the paper's set-up became this one
    published: Published | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.trace is None) == (self.workload is None):
            raise ValueError("state one of workload and trace")
        if (self.workload is None) != (self.size is None):
            raise ValueError("a workload needs its size, and a trace has its own")
        if (self.quantity == "speedup") != (self.over is not None):
            raise ValueError("a speedup is over another policy: state `over` for it, and for it alone")
        return self

    @property
    def digest(self) -> str:
        """A hash of everything that decides the obtained figure."""
        stated = self.model_dump(mode="json", exclude={"published", "claim", "where", "why"})
        return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:16]


class Paper(Table):
    """A file of blind claims."""

    version: Literal[1] = Field(alias="schema")
    source: str  # author, title, where and when it was published
    claims: Annotated[tuple[Claim, ...], Field(alias="claim", min_length=1, strict=False)]


@dataclass(frozen=True)
class Obtained:
    """A figure, with the interval that the choice of nodes gives it, in the unit of its quantity."""

    figure: float
    low: float
    high: float

    def in_words(self, quantity: Quantity) -> str:
        """Return the figure and its interval as text, with the unit."""
        show = {"time": format_time, "bandwidth": format_rate}.get(quantity, lambda each: f"{each:.3g}x")
        return f"{show(self.figure)} ({show(self.low)} to {show(self.high)})"


def blind_study(path: Path) -> Study:
    """Return the study of a file. Raises UsageError, with file, line and key, for what cannot be read."""
    paper = parse_toml(Paper, read_bytes(path, "blind"), str(path), "docs/reproduce.md")
    return Study(
        "blind-" + path.stem,
        f"Blind claims of {path.name}",
        paper.source,
        lambda context: Findings(tuple(_row(claim, path.parent, context) for claim in paper.claims), ()),
        "Obtained figures are medians over nodes, with the interval that the choice of nodes leaves.",
    )


def _row(claim: Claim, folder: Path, context: StudyContext) -> Row:
    """Obtain the figure, record it, and only then compare it with the published one."""
    obtained = _obtain(claim, folder, context)
    before = _record(context.directory / RECORD, claim, obtained)
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


def _obtain(claim: Claim, folder: Path, context: StudyContext) -> Obtained:
    machine = _machine(claim.machine, folder)
    workload = _workload(claim, machine, folder)
    names = [claim.policy] if claim.over is None else [claim.policy, claim.over]
    ensemble = run_ensemble(
        workload,
        Scaled(machine, claim.ranks),
        {name: find_policy(name, "policy") for name in names},
        context.pick(claim.nodes, min(claim.nodes, 2)),
        context.seed,
        context.directory / claim.digest,
        workload.measured_phase,
        parse_history(claim.history, "history"),
        progress=context.progress,
        attributed=0,
    )
    times = {name: _of_nodes(ensemble, name, "time_s") for name in names}
    return _summary(claim, times, ensemble, context.seed)


def _summary(
    claim: Claim, times: Mapping[str, NDArray[np.float64]], ensemble: Ensemble, seed: int
) -> Obtained:
    own = times[claim.policy]
    match claim.quantity:
        case "time":
            found = spread(own, seed)
        case "bandwidth":
            found = spread(LINE_BYTES * _of_nodes(ensemble, claim.policy, "lines_of_memory") / own, seed)
        case "speedup":
            assert claim.over is not None
            found = spread(times[claim.over] / own, seed)
        case "spread":
            draws = np.random.default_rng(seed).choice(own, (2000, len(own)))
            low, high = np.quantile(draws.max(axis=1) / draws.min(axis=1), [0.025, 0.975])
            return Obtained(float(own.max() / own.min()), float(low), float(high))
    return Obtained(found.median, found.median_low, found.median_high)


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


def _machine(name: str, folder: Path) -> Machine:
    beside = folder / name
    return load_machine(beside if name.endswith(".toml") else name)


def _workload(claim: Claim, machine: Machine, folder: Path) -> Workload:
    if claim.trace is not None:
        return open_trace(folder / claim.trace)
    assert claim.workload is not None
    assert claim.size is not None
    threads = max(1, machine.cores.count.value // claim.ranks)
    return declared(claim.workload, claim.size // claim.ranks, threads)


def _record(path: Path, claim: Claim, obtained: Obtained) -> str:
    """Keep what was obtained, and say whether that was before anybody looked at the published figure."""
    kept: dict[str, Any] = {}
    if path.exists():
        try:
            kept = json.loads(path.read_text())
        except (OSError, ValueError):
            raise UsageError(
                f"blind: cannot read the record '{path}'; move it away to begin a new one"
            ) from None
    code, figure = code_digest(), float(f"{obtained.figure:.6g}")
    result = hashlib.sha256(f"{claim.digest} {code} {figure}".encode()).hexdigest()[:16]
    first = kept.setdefault(
        claim.digest,
        {
            "claim": claim.claim,
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
    changed = "" if first["obtained"] == figure else f" It was {first['obtained']:g} then, with other code."
    return f"Digest {first['digest']}; first obtained before the file stated a published figure.{changed}"
