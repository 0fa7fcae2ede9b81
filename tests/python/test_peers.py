"""The table of peers: who does the same work, in turns, and whether they count the same."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PEERS = Path(__file__).parents[2] / "bench/peers"


@pytest.fixture(scope="module")
def peers() -> dict[str, ModuleType]:
    """The modules of bench/peers, which are no package."""
    found = {}
    for name in ("contest", "caches"):
        spec = importlib.util.spec_from_file_location(name, PEERS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = found[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[name])
    return found


def test_everyone_runs_in_turn_and_those_who_count_must_agree(peers: dict[str, ModuleType]) -> None:
    contest = peers["contest"]
    order: list[str] = []

    def runner(name: str, seconds: float, **counts: int) -> object:
        def run() -> object:
            order.append(name)
            return contest.Done(seconds, counts)

        return contest.Contestant(name, run, "nothing")

    absent = contest.Contestant("absent", lambda: None, "nothing")
    who = (runner("a", 0.5, misses=7), runner("b", 1.0, misses=7), absent, runner("c", 2.0))
    rows = contest.hold(contest.Contest("work", "lines", 10**6, who, "misses"), 2)
    assert order == ["a", "b", "c", "c", "b", "a"]
    assert [row[2] for row in rows] == ["0.5", "1", "", "2"]
    assert [row[4] for row in rows] == ["2 M lines/s", "1 M lines/s", "not installed", "0.5 M lines/s"]
    assert [row[5] for row in rows] == ["1.00", "2.00", "", "4.00"]
    assert [row[6] for row in rows] == ["7 misses", "7 misses", "", ""]

    who = (runner("a", 0.5, misses=7), runner("b", 1.0, misses=9))
    with pytest.raises(SystemExit, match=r"the tools count different misses: \{.a.: 7, .b.: 9\}"):
        contest.hold(contest.Contest("work", "lines", 1, who, "misses", tolerance=1), 1)


def test_the_caches_that_are_compared_are_those_of_the_peers(peers: dict[str, ModuleType]) -> None:
    """Beside the plainest LRU: a dictionary a set, in the order of use."""
    caches = peers["caches"]
    lines = caches.random_lines()[:60_000]
    for make, sets, ways in (
        (caches._one_level, caches.SETS, caches.WAYS),
        (caches._fully_associative, 1, caches.SETS * caches.WAYS),
    ):
        held: list[dict[int, None]] = [{} for _ in range(sets)]
        misses = 0
        for line in lines.tolist():
            here = held[line % sets]
            misses += line not in here
            here.pop(line, None)
            here[line] = None
            if len(here) > ways:
                del here[next(iter(here))]
        zeros = np.zeros(len(lines), np.uint32)
        assert len(make().access(lines, zeros, zeros.astype(np.uint8))) == misses
