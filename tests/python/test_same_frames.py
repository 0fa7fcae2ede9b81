"""Nodes on which a job has the same frames share a replay, and count what each of them counts alone."""

from typing import Any

import numpy as np
import pytest
from machine_roles import SNOOP_FILTER

from pagelens.accesses.declared import declared
from pagelens.frames import Node, find_policy, parse_history
from pagelens.machine import load_machine
from pagelens.replay import Simulation
from pagelens.replay.node_engine import _Placed
from pagelens.replay.whole_node import NodeCounts

SEED, FRESH, USED = 1, (0, 3), 1  # nodes without a job since boot, and one that ran some
MACHINE = load_machine(SNOOP_FILTER).with_values({"cores.count": 2, "l2.size": "64 KiB", "ddr.size": "1 GiB"})


@pytest.mark.parametrize(
    ("policy", "replays"), [("aged", 2), ("2m", 2), ("1g+offset-64k", 2), ("contiguous", 1), ("random", 3)]
)
def test_nodes_with_the_same_frames_share_a_replay(
    policy: str, replays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, replayed = [], _Placed._replayed

    def counting(placed: _Placed, *of: Any) -> NodeCounts:
        made.append(of)
        return replayed(placed, *of)

    monkeypatch.setattr(_Placed, "_replayed", counting)

    def simulation() -> Simulation:
        return Simulation(declared("stream-triad", 4 << 20, 1), MACHINE, ranks=1, seed=SEED)

    together = simulation()
    for number in (FRESH[0], USED, FRESH[1]):
        node = Node(MACHINE, SEED, number)
        found, alone = (of.run(of.place(find_policy(policy), node)) for of in (together, simulation()))
        assert np.array_equal(found.times.time_s, alone.times.time_s)
        assert all(np.array_equal(found.counts[name], alone.counts[name]) for name in alone.counts)
    assert len(made) == replays + 3


def test_a_node_is_fresh_until_something_uses_its_memory() -> None:
    def is_fresh(history: str, node: int = FRESH[0]) -> bool:
        return Node(MACHINE, SEED, node, history=parse_history(history)).is_fresh

    assert is_fresh("boot; age; run")
    assert not is_fresh("boot; age; run", USED)
    for more in ("age(jobs=1)", "io(64MiB)", "zonesort", "shuffle"):
        assert not is_fresh(f"boot; {more}; run")
    assert not is_fresh("boot(shuffle=on); run")
