"""Pieces of ensembles on executors, and their shards: the same whatever the workers, whole or absent."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from machine_roles import EXCLUSIVE_L3

import pagelens
from pagelens import _core
from pagelens.ensemble.pieces import Piece, leading_nodes
from pagelens.ensemble.result import TABLES, Tables
from pagelens.ensemble.run import run_pieces
from pagelens.ensemble.shards import ShardStore, key_of
from pagelens.ensemble.simulate import NodeSimulation
from pagelens.errors import Failure, Interrupted


def tables(node: int) -> Tables:
    """Three rows a table that depend on nothing but the node."""
    rng = np.random.default_rng(node)
    made = {}
    for name, schema in TABLES.items():
        columns = {
            column: ["a", "b", "c"]
            if kind == pl.String
            else [node] * 3
            if column == "node"
            else rng.random(3)
            for column, kind in schema.items()
        }
        made[name] = pl.DataFrame(columns, schema=dict(schema), strict=False)
    return Tables(**made)


def pieces(count: int) -> list[Piece]:
    """Under one policy."""
    return [Piece(False, node, 0) for node in range(count)]


class Simulation:
    """Remembers which nodes it was asked for."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    def __call__(self, piece: Piece, cancel: _core.CancelFlag) -> Tables:
        self.ran.append(piece.node)
        return tables(piece.node)


def files(store: ShardStore) -> dict[str, bytes]:
    return {
        str(p.relative_to(store.directory)): p.read_bytes()
        for p in sorted(store.directory.rglob("*.parquet"))
    }


def test_the_files_are_the_same_whatever_the_workers(tmp_path: Path) -> None:
    written = []
    for workers in (1, 2, 5):
        store = ShardStore(tmp_path / str(workers), "key")
        with ThreadPoolExecutor(workers) as pool:
            run_pieces(pieces(9), Simulation(), store, pool)
        written.append(files(store))
    assert written[0] == written[1] == written[2]
    assert len(written[0]) == 9 * len(TABLES)


def test_rows_come_in_the_order_of_the_nodes(tmp_path: Path) -> None:
    first_waits = threading.Event()

    def reversed_order(piece: Piece, cancel: _core.CancelFlag) -> Tables:
        if piece.node == 0:
            first_waits.wait(60)
        elif piece.node == 1:
            first_waits.set()
        return tables(piece.node)

    with ThreadPoolExecutor(2) as pool:
        result = run_pieces(reversed(pieces(2)), reversed_order, ShardStore(tmp_path, "key"), pool)
    assert result.placements["node"].to_list() == [0, 0, 0, 1, 1, 1]


def test_a_rerun_does_only_what_is_missing(tmp_path: Path) -> None:
    first, second = Simulation(), Simulation()
    run_pieces(pieces(3), first, ShardStore(tmp_path, "key"))
    seen: list[tuple[int, int]] = []
    result = run_pieces(pieces(5), second, ShardStore(tmp_path, "key"), progress=lambda *p: seen.append(p))
    assert sorted(first.ran) == [0, 1, 2]
    assert sorted(second.ran) == [3, 4]
    assert result.placements.equals(Tables.concatenate(tables(n) for n in range(5)).placements)
    assert seen == [(3, 5), (4, 5), (5, 5)]


def test_another_key_shares_nothing(tmp_path: Path) -> None:
    again = Simulation()
    run_pieces(pieces(2), Simulation(), ShardStore(tmp_path, key_of({"seed": 1})))
    run_pieces(pieces(2), again, ShardStore(tmp_path, key_of({"seed": 2})))
    assert sorted(again.ran) == [0, 1]
    assert key_of({"seed": 1, "ranks": 4}) == key_of({"ranks": 4, "seed": 1})


def test_ctrl_c_keeps_what_is_complete_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, "key")

    def interrupted(done: float, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(
        Interrupted, match=r"stopped with 2 of 8 placements complete, kept in .*key"
    ) as caught:
        run_pieces(pieces(8), Simulation(), store, progress=interrupted)
    assert caught.value.exit_code == 130
    assert len(store.complete) == 2
    assert not list(store.directory.glob("*.partial"))
    assert threading.active_count() == 1 or not [
        t for t in threading.enumerate() if t.name.startswith("pagelens-node")
    ]


def test_a_node_that_fails_fails_the_run_and_keeps_the_others(tmp_path: Path) -> None:
    def third_fails(piece: Piece, cancel: _core.CancelFlag) -> Tables:
        if piece.node == 2:
            raise Failure("node 2: no")
        return tables(piece.node)

    store = ShardStore(tmp_path, "key")
    with ThreadPoolExecutor(1) as pool, pytest.raises(Failure, match="node 2: no"):
        run_pieces(pieces(4), third_fails, store, pool)
    assert {*pieces(2)} <= store.complete
    assert pieces(3)[2] not in store.complete


def test_left_overs_of_a_killed_run_are_swept_away(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, "key")
    (store.directory / "00001-0.partial").mkdir()
    assert ShardStore(tmp_path, "key").complete == set()
    assert not list(store.directory.iterdir())


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, "key")
    run_pieces(pieces(1), Simulation(), store)
    (store.directory / "00000-0" / "objects.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(Failure, match="00000-0: unreadable"):
        run_pieces(pieces(1), Simulation(), ShardStore(tmp_path, "key"))


def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Failure, match="--output: cannot write"):
        ShardStore(tmp_path / "file", "key")


def test_a_shard_without_room_is_kept_in_memory_alone(
    tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    store = ShardStore(tmp_path, "key")
    full_disk(100)
    run_pieces(pieces(2), Simulation(), store)
    again = Simulation()
    assert run_pieces(pieces(2), again, store).objects["node"].to_list() == [0] * 3 + [1] * 3
    assert again.ran == []
    assert list(store.directory.iterdir()) == []


def test_tables_hold_their_schema(tmp_path: Path) -> None:
    good = tables(0)
    with pytest.raises(ValueError, match="table placements"):
        Tables(**{name: good[name] for name in TABLES} | {"placements": good.objects})


def test_tables_without_rows_have_no_file_and_come_back_empty(tmp_path: Path) -> None:
    piece = Piece(True, 3, 2)
    ShardStore(tmp_path, "key").write(piece, Tables.of(objects=tables(3).objects))
    store = ShardStore(tmp_path, "key")
    assert store.complete == {piece}
    assert len(files(store)) == 1
    assert store.read(piece).objects.equals(tables(3).objects)
    assert store.read(piece).placements.height == 0


def test_nodes_are_counted_up_to_the_first_gap() -> None:
    done = {Piece(False, node, policy) for node, policy in ((0, 0), (1, 0), (3, 0), (0, 1))}
    done.add(Piece(True, 2, 0))
    assert [leading_nodes(done, policy) for policy in range(3)] == [2, 1, 0]


def test_all_rounds_of_an_ensemble_run_on_the_same_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep the memory of the simulated caches, which takes the kernel long to give."""
    threads = set()
    rows = NodeSimulation.rows

    def seen(*args: Any) -> Tables:
        threads.add(threading.current_thread())
        return rows(*args)

    monkeypatch.setattr(NodeSimulation, "rows", seen)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    program, machine = pagelens.workload("l2-sum", size="2MB"), pagelens.machine(EXCLUSIVE_L3)
    found = pagelens.simulate(program, machine, ["random"], 5, precision=1e-9, progress=False)
    assert found.nodes == 5
    assert len(threads) == 1
