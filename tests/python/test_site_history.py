"""The site's history: nothing is lost or counted twice, whatever nodes, clocks and files do."""

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from fleet_history import NOW, check, fleet
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelens.errors import Failure, UsageError
from pagelens.site import evidence
from pagelens.site.check import parse_check
from pagelens.site.collect import collect, collect_lines, collect_spools
from pagelens.site.decision import Evidence, Rule, State, add, reference
from pagelens.site.history import Action, actions_of, open_history, record_action, writing
from pagelens.site.spool import put
from pagelens.site.standing import standings

RULE = Rule()


def states(connection: sqlite3.Connection) -> dict[str, State]:
    return {each.node: each.state for each in standings(connection, RULE, NOW)}


def peers(connection: sqlite3.Connection, count: int = 12) -> None:
    """Nodes that all are as they should be, on the days of `check`."""
    rng = np.random.default_rng(0)
    many = [
        check(
            f"peer{node}",
            boot=boot,
            uptime=3600.0 * (at + 1),
            job=f"{boot}-{at}",
            figure=rng.normal(3.5e11, 3e9),
        )
        for node in range(count)
        for boot in range(3)
        for at in range(6)
    ]
    collect(connection, many, RULE, NOW)


@pytest.fixture
def history(tmp_path):
    with open_history(tmp_path / "history.sqlite", write=True) as connection:
        yield connection


def dump(connection: sqlite3.Connection) -> list[tuple]:
    columns = "node, kind, boot, at, uptime, figure, round(sum, 9), jobs, slow"
    return connection.execute(f"SELECT {columns} FROM states ORDER BY node").fetchall()


def test_a_degraded_node_is_slow_and_one_low_figure_is_not(history):
    peers(history)
    collect(
        history, [check("bad", uptime=100.0 + at, job=str(at), figure=2.5e11) for at in range(3)], RULE, NOW
    )
    collect(
        history,
        [
            check("once", uptime=100.0 + at, job=str(at), figure=1e11 if at == 2 else 3.5e11)
            for at in range(5)
        ],
        RULE,
        NOW,
    )
    found = states(history)
    assert found["bad"] == State.slow
    assert found["once"] == found["peer3"] == State.ok


def test_immediate_repeats_are_one_piece_of_evidence(history):
    peers(history)
    collect(history, [check("n", uptime=100.0 + at, job="7", figure=1e11) for at in range(9)], RULE, NOW)
    collect(history, [check("n", uptime=200.0 + at, job="7", figure=1e11) for at in range(9)], RULE, NOW)
    collect(history, [check("idle", uptime=300.0 + at, figure=1e11) for at in range(9)], RULE, NOW)
    assert states(history)["n"] == states(history)["idle"] == State.ok


def test_disturbed_checks_and_those_without_a_figure_are_no_evidence(history):
    peers(history)
    lows = [check("n", uptime=100.0 + at, job=str(at), figure=1e11, disturbed=True) for at in range(5)]
    collect(history, [*lows, check("n", uptime=900.0, job="x", figure=None)], RULE, NOW)
    assert states(history)["n"] == State.unknown


def test_a_boot_and_an_action_begin_anew(history):
    peers(history)
    collect(history, [check("n", uptime=100.0 + at, job=str(at), figure=2e11) for at in range(4)], RULE, NOW)
    assert states(history)["n"] == State.slow
    record_action(history, Action(NOW, "n", "clean", "slow", {"sum": 16.0}))
    assert states(history)["n"] == State.unknown
    collect(history, [check("n", uptime=200.0 + at, job=f"a{at}", figure=2e11) for at in range(4)], RULE, NOW)
    assert states(history)["n"] == State.slow
    collect(history, [check("n", boot=1, uptime=50.0, job="b")], RULE, NOW)
    assert states(history)["n"] == State.ok
    assert [action.step for action in actions_of(history, "n")] == ["clean"]


def test_too_few_peers_leave_nodes_unknown_until_there_are_enough(history):
    lows = [check("n", uptime=100.0 + at, job=str(at), figure=1e11) for at in range(4)]
    collect(history, lows, RULE, NOW)
    assert states(history) == {"n": State.unknown}
    peers(history)
    assert states(history)["n"] == State.slow
    assert {each.state for each in standings(history, RULE, NOW + 30 * 86_400)} == {State.unknown}


def test_another_mode_has_other_peers(history):
    peers(history)
    flat = [
        check(f"flat{n}", uptime=100.0 * at, job=str(at), figure=9e10 + n * 1e8, mode="flat")
        for n in range(10)
        for at in range(1, 5)
    ]
    collect(history, flat, RULE, NOW)
    assert {state for name, state in states(history).items() if name.startswith("flat")} == {State.ok}


def test_records_come_twice_and_count_once(history, tmp_path):
    checks = fleet(20, 10)
    for each in checks:
        put(tmp_path / "spool" / each.node, each)
    spools = [tmp_path / "spool"]
    first = collect_spools(history, spools, RULE, NOW)
    again = collect_lines(history, (each.to_json().encode() for each in checks), RULE, NOW)
    assert (first.new, first.known, again.new, again.known) == (200, 0, 0, 200)
    assert not list((tmp_path / "spool").rglob("*.json"))
    for each in checks[:7]:  # as if the collector had been killed before it could delete them
        put(tmp_path / "spool", each)
    again = collect_spools(history, spools, RULE, NOW)
    assert (again.new, again.known) == (0, 7)
    assert not list((tmp_path / "spool").rglob("*.json"))
    assert (
        history.execute(
            "SELECT count(*), sum(jobs) FROM checks, (SELECT sum(jobs) AS jobs FROM states)"
        ).fetchone()[0]
        == 200
    )


def test_a_crash_before_the_commit_loses_nothing(history, tmp_path, monkeypatch):
    for each in fleet(10, 6):
        put(tmp_path / "spool", each)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pagelens.site.collect.bring_up_to_date", dies)
        with pytest.raises(KeyboardInterrupt):
            collect_spools(history, [tmp_path / "spool"], RULE, NOW)
    assert history.execute("SELECT count(*) FROM checks").fetchone() == (0,)
    assert collect_spools(history, [tmp_path / "spool"], RULE, NOW).new == 60


def test_what_a_killed_check_left_half_written_goes(tmp_path):
    old, new = (tmp_path / f".n1-{name}.check.json.partial" for name in ("old", "new"))
    for partial in (old, new):
        partial.write_text("{")
    os.utime(old, (0, 0))
    put(tmp_path, check())
    assert (old.exists(), new.exists()) == (False, True)


def test_garbage_is_set_aside_and_the_rest_comes_in(history, tmp_path):
    spool = tmp_path / "spool"
    good = put(spool, check())
    for number, raw in enumerate(
        (b"", b"\xff\xfe", good.read_bytes()[:90], b"[]", b'{"version":1}', b"9" * 70_000)
    ):
        (spool / f"bad{number}.check.json").write_bytes(raw)
    (spool / "link.check.json").symlink_to("/etc/passwd")
    os.mkfifo(spool / "pipe.check.json")
    done = collect_spools(history, [spool], RULE, NOW)
    assert (done.new, len(done.invalid)) == (1, 7)
    assert collect_spools(history, [spool], RULE, NOW).invalid == []


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_check_or_a_reason(raw):
    assert parse_check(raw)


@pytest.mark.parametrize(
    "forged",
    [
        {"node": "../../etc"},
        {"node": "a b"},
        {"time": float("nan")},
        {"uptime": -1},
        {"id": "1"},
        {"kernels": {"triad": -1}},
        {"kernels": {"triad": 1e400}},
        {"free_blocks": [1] * 40},
        {"hardware": "a\nb"},
        {"job": "x;y"},
    ],
)
def test_what_a_node_cannot_say_is_refused(forged):
    assert isinstance(parse_check(check().model_dump() | forged), str)


def test_clocks_that_step_change_no_verdict(history):
    peers(history)
    clocks = [0.0, NOW + 1e9, 86_400.0, NOW - 299_000.0]
    collect(
        history,
        [
            check("n", uptime=100.0 * (at + 1), job=str(at), figure=2e11, time=clock)
            for at, clock in enumerate(clocks)
        ],
        RULE,
        NOW,
    )
    assert all(abs(at - NOW) < 1e6 for (at,) in history.execute("SELECT at FROM checks"))
    peers_of_today = [
        check(f"t{n}", boot=2, uptime=10.0 + at, job=str(at), time=NOW) for n in range(9) for at in range(4)
    ]
    collect(history, peers_of_today, RULE, NOW)
    assert states(history)["n"] == State.slow


def test_a_node_that_is_renamed_is_one_node(history):
    peers(history)
    collect(history, [check("old", uptime=100.0, job="1", board="B1")], RULE, NOW)
    collect(history, [check("new", boot=1, uptime=100.0, job="2", board="B1")], RULE, NOW)
    assert "old" not in states(history)
    assert states(history)["new"] == State.ok
    assert history.execute(
        "SELECT a.name FROM nodes AS b JOIN nodes AS a ON b.follows = a.node"
    ).fetchall() == [("old",)]


def test_boards_that_share_a_number_stay_nodes_of_their_own(history):
    peers(history)
    for at in range(3):
        collect(
            history,
            [check(name, uptime=100.0 + at, job=str(at), board="same") for name in ("a", "b")],
            RULE,
            NOW,
        )
    assert {"a", "b"} <= set(states(history))


def test_a_repaired_node_is_judged_by_its_new_board(history):
    peers(history)
    collect(
        history,
        [check("n", uptime=100.0 + at, job=str(at), figure=2e11, board="old") for at in range(4)],
        RULE,
        NOW,
    )
    collect(history, [check("n", boot=2, uptime=100.0, job="9", board="new")], RULE, NOW)
    assert states(history)["n"] == State.ok


@given(st.randoms(use_true_random=False), st.integers(1, 40))
@settings(max_examples=6, deadline=None)
def test_evidence_does_not_depend_on_how_checks_arrive(tmp_path_factory, random, size):
    """It is the same in any order, in batches of any size, and when it is made again from the rows."""
    checks = fleet(12, 8, bad=0.4)
    shuffled = checks.copy()
    random.shuffle(shuffled)
    with open_history(tmp_path_factory.mktemp("h") / "h", write=True) as connection:
        collect(connection, fleet(30, 8, seed=9), RULE, NOW)  # so that every day has its peers
        for begin in range(0, len(shuffled), size):
            collect(connection, shuffled[begin : begin + size], RULE, NOW)
        before = dump(connection)
        with writing(connection):
            evidence.rebuild(connection, RULE)
        assert dump(connection) == before


@given(
    st.lists(
        st.lists(st.one_of(st.just(float("nan")), st.floats(-20, 20)), min_size=9, max_size=9),
        min_size=1,
        max_size=6,
    )
)
def test_the_sum_equals_a_slow_one(z):
    found = add(Evidence.none(len(z)), np.array(z), RULE)
    for node, values in enumerate(z):
        total, jobs, slow = 0.0, 0, False
        for value in values:
            if value != value:
                continue
            total = min(max(0.0, total - max(-6.0, min(6.0, value)) - 2.0), 20.0)
            jobs += 1
            if total >= 10 and jobs >= 3:
                slow = True
            if total == 0:
                slow = False
        assert (found.jobs[node], found.slow[node]) == (jobs, slow)
        assert found.sums[node] == pytest.approx(total)


def test_peers_are_their_middle_whatever_a_third_of_them_does():
    rng = np.random.default_rng(1)
    figures = np.concatenate([rng.normal(350, 4, 200), rng.uniform(50, 300, 100)])
    found = reference(figures, np.arange(300) % 60, 8)
    assert found is not None
    assert found.median == pytest.approx(348, abs=4)
    assert found.scale < 12
    assert reference(figures, np.zeros(300), 8) is None


def test_histories_that_are_not_there_or_not_ours_are_errors(tmp_path):
    with pytest.raises(UsageError, match="site collect makes it"), open_history(tmp_path / "none"):
        pass
    (tmp_path / "text").write_text("not a database, but long enough to look like one" * 40)
    with pytest.raises(Failure, match="history"), open_history(tmp_path / "text", write=True):
        pass
    with sqlite3.connect(tmp_path / "newer") as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(Failure, match="version 99"), open_history(tmp_path / "newer"):
        pass


def test_a_full_disk_costs_the_record_and_nothing_else(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        put(tmp_path, check())
    assert list(tmp_path.iterdir()) == []


def test_tables_are_strict(history):
    with pytest.raises(sqlite3.IntegrityError):
        history.execute("INSERT INTO kinds VALUES ('x', 'a', 'b')")
    assert history.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_history_is_exported_as_parquet(history, tmp_path: Path):
    import polars as pl

    from pagelens.site.history import export_checks

    collect(history, fleet(5, 4), RULE, NOW)
    assert export_checks(history, tmp_path / "checks.parquet") == 20
    assert pl.read_parquet(tmp_path / "checks.parquet")["node"].n_unique() == 5
