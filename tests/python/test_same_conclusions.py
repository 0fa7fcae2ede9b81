"""`explain` concludes from few nodes what it concludes from 64 nodes under every policy."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
import synthetic
from machine_roles import CACHE_MODE, SNOOP_FILTER

import pagelens
from pagelens import _core
from pagelens.ensemble import Ensemble, Tables
from pagelens.ensemble.growing import GrowingEnsemble
from pagelens.ensemble.pieces import Piece
from pagelens.ensemble.shards import ShardStore
from pagelens.explain import Explanation, explain
from pagelens.explain.precision import DEFAULT_PRECISION, ByPrecision
from pagelens.explain.verdict import MATTERS

NODES = 64
# Nodes with caches as small as programs that are simulated in a second.
KNL = {"cores.count": 4, "fast_memory.size": "64 MiB", "ddr.size": "384 MiB"}
SKYLAKE = {"cores.count": 2, "l2.size": "64 KiB", "l3.size": "1056 KiB", "snoop_filter.sets": 64}
ON_KNL = (
    ("stream-triad", "50MB"), ("stream-triad", "90MB"), ("stream", "60MB"), ("triad", "70MB"), ("cg", "60MB"),
    ("minife", "50MB"), ("minife-solve", "64MB"), ("random-access", "50MB"), ("gups-hot", "60MB"),
    ("stencil", "50MB"), ("hydro", "60MB"), ("fft", "40MB"), ("shallow", "50MB"), ("dgemm", "30MB"),
    ("l2-sum", "20MB"),
)  # fmt: skip
ON_SKYLAKE = ("stream-triad", "cg", "gups-hot", "shallow", "random-access")


class KnownPieces:
    """The pieces of an ensemble that is known already, in place of a NodeSimulation."""

    simulation = SimpleNamespace(attribution_replays=False)

    def __init__(self, known: Ensemble) -> None:
        self.known, self.policies = known, known.policies

    def rows(self, piece: Piece, _cancel: _core.CancelFlag) -> Tables:
        """The rows of one piece."""
        is_it = (pl.col("node") == piece.node) & (pl.col("policy") == list(self.policies)[piece.policy])
        return Tables(**{name: rows.filter(is_it) for name, rows in vars(self.known.tables).items()})


class KeptPieces(ShardStore):
    """Pieces that are kept in memory, because what a disk keeps is tested elsewhere."""

    def write(self, piece: Piece, tables: Tables) -> None:
        """Keep the rows."""
        self._read[piece] = tables
        self.complete.add(piece)


def of_few_nodes(known: Ensemble, folder: Path) -> Ensemble:
    """The part of the ensemble that `explain` would have simulated."""

    def ensemble(counts: Mapping[str, int], tables: Tables) -> Ensemble:
        return replace(known, tables=tables, nodes=counts[known.baseline], stopped=counts)

    growing = GrowingEnsemble(KnownPieces(known), KeptPieces(folder, "a"), ensemble, attributed=0)
    return growing.grow(known.nodes, ByPrecision(DEFAULT_PRECISION, known.nodes))


def assert_same(few: Explanation, many: Explanation) -> None:
    """Both say the same, as far as both are sure."""
    assert few.conclusion.placement_matters == many.conclusion.placement_matters
    of_few, of_many = ({r.policy: r for r in of.remedies} for of in (few, many))
    assert set(of_few) == set(of_many) != set()
    for policy, remedy in of_few.items():
        other = of_many[policy]
        assert remedy.gain_median_low <= other.gain_median_high, policy
        assert other.gain_median_low <= remedy.gain_median_high, policy
        if "unsure" not in (remedy.verdict, other.verdict):
            assert remedy.verdict == other.verdict, policy
    best, wanted = (next((r for r in of.remedies if r.verdict == "gains"), None) for of in (few, many))
    assert (best is None) == (wanted is None)
    if best is not None and wanted is not None:  # the same one, or one that gains as much
        assert of_many[best.policy].gain_median * MATTERS >= wanted.gain_median


@pytest.mark.parametrize(("fill", "matters"), [(0.9, True), (0.3, True), (0.9, False)])
def test_few_nodes_say_what_64_nodes_say(fill: float, matters: bool, tmp_path: Path) -> None:
    many = synthetic.ensemble(NODES, fill=fill, placement_matters=matters)
    few = of_few_nodes(many, tmp_path)
    assert len(few.tables.placements) < len(many.tables.placements) / 2
    assert_same(explain(few), explain(many))


@pytest.mark.long
@pytest.mark.parametrize(
    ("machine", "changed", "name", "size"),
    [
        *((CACHE_MODE, KNL, name, size) for name, size in ON_KNL),
        *((SNOOP_FILTER, SKYLAKE, name, "16MB") for name in ON_SKYLAKE),
    ],
)
def test_programs_are_explained_as_by_64_nodes(
    machine: str, changed: Mapping[str, object], name: str, size: str, tmp_path: Path
) -> None:
    node, program = pagelens.machine(machine).with_values(changed), pagelens.workload(name, size=size)
    few = pagelens.simulate(program, node, output=tmp_path, progress=False)
    many = pagelens.simulate(program, node, nodes=NODES, output=tmp_path, progress=False)
    assert_same(pagelens.explain(few), pagelens.explain(many))
