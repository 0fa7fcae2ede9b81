"""Placement policies: their remedies, policies that a user registers, and rules written in Python."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from machine_roles import CACHE_MODE
from numpy.typing import NDArray
from small_machine import small

from pagelens.errors import UsageError
from pagelens.frames import Node, Policy, find_policy, parse_history, placed_by, policies, register
from pagelens.frames.policies import Host, Job, RunOptions
from pagelens.frames.policies.python_rule import free_frames
from pagelens.machine import load_machine

Frames = NDArray[np.uint32]

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
KNL = load_machine(CACHE_MODE)
JOB = Job(3 * GIB, KNL)


@pytest.fixture
def registry() -> Iterator[dict[str, Policy]]:
    before = dict(policies)
    yield policies
    policies.clear()
    policies.update(before)


def test_a_registered_policy_is_found_by_its_name_and_takes_modifiers(registry: dict[str, Policy]) -> None:
    mine = register(Policy("mine", "the highest frames", placed_by(highest)))
    assert find_policy("mine") is not None
    assert find_policy("mine+offset-64k").rule == mine.rule
    assert list(registry)[-1] == "mine"
    assert register(mine) is mine  # a notebook's cell runs twice


@pytest.mark.parametrize(("name", "said"), [("2m", "'2m' is already registered"), ("", "the name is empty")])
def test_a_name_that_cannot_be_registered_is_refused(
    name: str, said: str, registry: dict[str, Policy]
) -> None:
    with pytest.raises(UsageError, match=said):
        register(Policy(name, "another one", placed_by(highest)))


def highest(free: Frames, pages: int) -> Frames:
    return free[::-1][:pages]


def test_a_function_chooses_the_frames_of_a_job() -> None:
    machine = small()
    node = Node(machine, 1, 0, history=parse_history("boot; age(jobs=3)"))
    free = free_frames(node.aged.state.memory)
    assert len(free) == node.aged.state.memory.free_frames
    assert len(np.unique(free)) == len(free)
    placement = Policy("mine", "", placed_by(highest)).place(machine, node)
    assert placement.first_frames(1, 1000).tolist() == free[::-1][:1000].tolist()


@pytest.mark.parametrize(
    ("choose", "said"),
    [
        (lambda free, pages: free[:pages] * 1.5, r"float64\[\d+\]; return frame numbers"),
        (lambda free, pages: free[:pages].reshape(1, -1), "return frame numbers"),
        (lambda free, pages: free, r"return 1 to \d+"),
        (lambda free, pages: free[:0], r"return 1 to \d+"),
        (lambda free, pages: np.array([1 << 31]), "a frame that is not free"),
        (lambda free, pages: np.array([-1]), "a frame that is not free"),
        (lambda free, pages: free[[0, 0]], "a frame twice"),
    ],
)
def test_a_function_that_returns_no_frames_for_a_job_is_an_error(
    choose: Callable[[Frames, int], Frames], said: str
) -> None:
    machine = small()
    with pytest.raises(UsageError, match=said):
        Policy("mine", "", placed_by(choose)).place(machine, Node(machine, 1, 0))


def test_equal_names_are_equal_policies() -> None:
    """Results are kept of policies that come with pagelens, which are recognised by comparing them."""
    for name in (*policies, "2m+offset-64k", "aged+swizzle"):
        assert find_policy(name) == find_policy(name)
    assert find_policy("2m").remedy != find_policy("1g").remedy
    assert find_policy("coloured").remedy != find_policy("johnny-static").remedy


ALL = Host({2 << 20: 4 * GIB, GIB: 4 * GIB}, transparent_huge_pages=True, sees_frames=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("2m", RunOptions("2m", 2 << 20)),
        ("1g", RunOptions("1g", GIB)),
        ("coloured", RunOptions(cache_bytes=16 * GIB)),
        ("johnny-static", RunOptions("2m", 2 << 20, cache_bytes=16 * GIB)),
    ],
)
def test_what_a_user_can_apply_to_one_program(name: str, options: RunOptions) -> None:
    remedy = policies[name].remedy
    assert remedy is not None
    assert remedy.run_options(JOB, ALL) == options
    assert remedy.commands(JOB, ALL)
    if name != "johnny-static":
        assert isinstance(remedy.run_options(JOB, Host()), str)


@pytest.mark.parametrize(
    "name", ["aged+zonesort", "shuffled", "numa-fake", "adaptive", "2m+swizzle", "aged+offset-64k"]
)
def test_what_only_an_administrator_can_apply(name: str) -> None:
    remedy = find_policy(name).remedy
    assert remedy is not None
    assert (
        remedy.run_options(JOB, ALL) == "it needs root, a reboot or another kernel, or is no choice of a run"
    )


def test_the_commands_of_a_remedy_fit_the_host_and_the_job() -> None:
    def commands(name: str, host: Host = ALL) -> tuple[str, ...]:
        remedy = policies[name].remedy
        assert remedy is not None
        return remedy.commands(JOB, host)

    assert commands("2m") == ("pagelens run --pages 2m -- ./app",)
    assert commands("2m", Host()) == ("pagelens run --pages thp -- ./app",)  # an empty pool gives no page
    assert commands("1g")[0] == "grubby --update-kernel=ALL --args='hugepagesz=1G hugepages=3'"
    assert commands("numa-fake")[0] == "grubby --update-kernel=ALL --args='numa=fake=6U'"
    assert commands("aged+zonesort", Host(numa_nodes=(0, 2)))[2:] == (
        "modprobe zonesort_module",
        "echo 0 > /sys/kernel/zone_sort_free_pages/nodeid",
        "echo 2 > /sys/kernel/zone_sort_free_pages/nodeid",
    )


def test_the_page_of_remedies_has_a_row_for_each() -> None:
    table = (ROOT / "docs/remedies.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|", table, re.M)
    assert {name for name, policy in policies.items() if policy.remedy is not None} <= set(rows)
