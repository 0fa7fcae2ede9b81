"""The rules for NUMA nodes against real kernels: the node of every page of a program in a guest."""

import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numa_rule
import pytest
from zonesort_guest import shell

from pagelens import _core
from pagelens.lab.guest import Guest

MIB = 1 << 20
PROGRAM = Path(__file__).parents[1] / "programs" / "numa_pages.c"
SQUARE = [[10, 12, 32, 30], [12, 10, 31, 32], [32, 31, 10, 12], [30, 32, 12, 10]]
TWO = [[10, 21], [21, 10]]
WEIGHTS = [5, 2, 1, 3]
MODES = {
    "local": "local", "huge": "local", "preferred": "preferred", "bind": "bind", "many": "preferred_many",
    "interleave": "interleave", "weighted": "weighted_interleave", "interleavehuge": "interleave",
}  # fmt: skip
BOOTED = "numa_balancing=disable transparent_hugepage=madvise"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numa") / "numa_pages"
    subprocess.run(["gcc", "-O1", "-static", "-o", path, PROGRAM], check=True)
    return path


def pages_of(words: list[str]) -> list[int]:
    """The node of each page, of words such as "0x500"."""
    pairs = [re.fullmatch(r"(-?\d+)x(\d+)", word) for word in words]
    return [int(pair[1]) for pair in pairs if pair for _ in range(int(pair[2]))]


def said(guest: Guest, *arguments: object) -> Iterator[tuple[str, int, list[int]]]:
    """Each way's name, first page, and the node of each of its pages."""
    for line in shell(guest, " ".join(["/lab/numa", *map(str, arguments)])).splitlines():
        name, *words = line.split()
        if words != ["refused"]:
            yield name, int(words[0]), pages_of(words[1:])


def modelled(name: str, first: int, pages: int, nodes: int, orders: list[list[int]]) -> list[int]:
    """The node of each page by the model's request and order of nodes, where every node has room."""
    kind, *rest = name.split("-")
    cpu = int(rest[0]) if kind in ("local", "huge", "bind", "many") else 0
    mask = (
        int(rest[-1])
        if kind in ("bind", "many", "interleave", "interleavehuge", "weighted")
        else (1 << nodes) - 1
    )
    if kind == "preferred":
        cpu, mask = (int(rest[0]) + 1) % nodes, 1 << int(rest[0])
    policy = _core.NumaPolicy(_core.NumaMode[MODES[kind]], mask, WEIGHTS[:nodes])
    order = 9 if "huge" in kind else 0
    found = []
    for page in range(first, first + pages):
        begin, allowed, _ = policy.request(cpu, order, page >> order, nodes)
        found.append(next(node for node in orders[begin] if allowed >> node & 1))
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "far", "size"),
    [("6.1", TWO, 384 * MIB), ("6.12", SQUARE, 256 * MIB)],
    ids=["6.1, two nodes", "6.12, four nodes"],
)
def test_every_page_lies_where_the_model_says(
    kernel: str, far: list[list[int]], size: int, program: Path
) -> None:
    nodes, cpus = len(far), list(range(len(far)))
    orders = _core.fallback_orders(nodes, cpus, [distance for row in far for distance in row])
    with Guest(
        kernel,
        nodes * size,
        {"/lab/numa": program},
        nodes=nodes,
        cpus=nodes,
        distances=far,
        append=BOOTED,
    ) as guest:
        # The order that the kernel fixed at boot, as it says itself.
        printed = re.findall(
            r"Fallback order for Node (\d+): ([0-9 ]+)", guest.console + shell(guest, "dmesg")
        )
        told = {int(node): [int(word) for word in words.split()] for node, words in printed}
        assert told == dict(enumerate(orders)) == dict(enumerate(numa_rule.fallback_orders(cpus, far)))
        weights = "/sys/kernel/mm/mempolicy/weighted_interleave"
        for node, weight in enumerate(WEIGHTS[:nodes]):
            shell(guest, f"[ ! -d {weights} ] || echo {weight} > {weights}/node{node}")
        # A kernel with less than 512 MiB has no large pages, whatever it is told.
        assert "[madvise]" in shell(guest, "cat /sys/kernel/mm/transparent_hugepage/enabled")
        ways = list(said(guest, nodes))
        wrong, pages = [], 0
        for name, first, found in ways:
            if name == "parallel":
                expected = [cpu for cpu in cpus for _ in range(len(found) // nodes)]
            elif name in ("written", "again"):
                expected = [nodes - 1 if name == "written" else 0] * len(found)
            else:
                expected = modelled(name, first, len(found), nodes, orders)
            pages += len(found)
            wrong += [
                (name, at) for at, pair in enumerate(zip(found, expected, strict=True)) if len(set(pair)) > 1
            ]
        print(f"{kernel}: {len(wrong)} of {pages} pages in {len(ways)} ways lie elsewhere: {wrong[:8]}")
        kinds = {name.split("-")[0] for name, *_ in ways}
        assert kinds >= set(MODES) - {"weighted"} | {"parallel", "written", "again"}
        assert ("weighted" in kinds) == (kernel == "6.12")
        assert wrong == []
        check_pools(guest, nodes, orders)
        check_khugepaged(guest, nodes)

        # A process larger than a node goes on in that order, and comes back to none.
        for cpu in cpus:
            ((_, _, found),) = said(guest, nodes, size // 4096 * 5 // 4, cpu)
            seen = list(dict.fromkeys(found))
            assert seen == orders[cpu][: len(seen)]
            assert len(seen) >= 2
            moves = sum(a != b for a, b in pairwise(found))
            print(f"{kernel}: spill from node {cpu}: {seen}, {moves} changes of node over {len(found)} pages")


def check_pools(guest: Guest, nodes: int, orders: list[list[int]]) -> None:
    """Each node has its part of the pool, and each page comes from the nearest pool that has one."""
    total, asked = 4 * nodes - 1, 2 * nodes + 1
    shell(guest, f"echo {total} > /proc/sys/vm/nr_hugepages")
    files = [
        f"/sys/devices/system/node/node{n}/hugepages/hugepages-2048kB/nr_hugepages" for n in range(nodes)
    ]
    there = list(map(int, shell(guest, f"cat {' '.join(files)}").split()))
    assert there == [total // nodes + (node < total % nodes) for node in range(nodes)]  # the step `hugetlb`
    ways = list(said(guest, nodes, "pools", asked))
    assert len(ways) == 3 * nodes + 1
    for name, _, found in ways:
        kind, *rest = name.split("-")
        mask = 1 << int(rest[0]) if kind in ("bind", "many") else (1 << nodes) - 1
        policy = _core.NumaPolicy(_core.NumaMode[MODES[kind]], mask)
        left, expected = list(there), []
        for index in range(len(found) // 512):  # the kernel counts from the beginning of the mapping
            begin, allowed, _ = policy.request(int(rest[0]) if kind == "local" else 0, 0, index, nodes)
            full = [node for node in orders[begin] if left[node]]
            within = [node for node in full if allowed >> node & 1]
            node = (within or full)[0]  # only preferred_many has pools that it does not prefer
            left[node] -= 1
            expected += [node] * 512
        assert found == expected, name
    shell(guest, "echo 0 > /proc/sys/vm/nr_hugepages")


def check_khugepaged(guest: Guest, nodes: int) -> None:
    """A page of small ones lies where most of these were (hpage_collapse_find_target_node())."""
    shell(guest, "echo 10 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs")
    for first in (200, 300):
        before, after = said(guest, nodes, "collapsed", first)
        assert before[2] == [0] * first + [nodes - 1] * (512 - first)
        assert after[2] == [0 if first > 256 else nodes - 1] * 512


@pytest.mark.long
def test_balancing_moves_pages_as_the_model_says(tmp_path: Path) -> None:
    """A thread on node 1 gets each page once. Where two threads use each page, few faults move one."""
    source, program, pages = PROGRAM.with_name("balanced_pages.c"), tmp_path / "balanced", 2000
    subprocess.run(["gcc", "-O1", "-static", "-pthread", "-o", program, source], check=True)
    settings = "/sys/kernel/debug/sched/numa_balancing"
    with Guest(
        "6.12", 768 * MIB, {"/lab/p": program}, nodes=2, cpus=2, distances=TWO,
        append="numa_balancing=enable transparent_hugepage=never",
    ) as guest:  # fmt: skip
        shell(guest, "mount -t debugfs none /sys/kernel/debug || true")
        for name, value in (("scan_delay_ms", 100), ("scan_period_min_ms", 100), ("scan_period_max_ms", 200)):
            shell(guest, f"echo {value} > {settings}/{name}")
        alone, shared = (balanced(guest, f"{way} {pages} 4") for way in ("private", "shared"))
        shell(guest, "echo 0 > /proc/sys/kernel/numa_balancing")
        without = balanced(guest, f"private {pages} 1")
    print(f"6.12: alone {alone}, shared {shared}, without {without}")
    assert without[:2] == [pages, 0]
    assert alone[1] > 0.97 * pages  # the model says all; a processor's list of new pages keeps some back
    assert alone[2] > 0.97 * pages
    assert alone[1] <= alone[3] < 1.1 * pages  # moved once, with few others of the process
    assert shared[3] < 0.5 * shared[2]  # the filter: most faults follow one of the other thread


def balanced(guest: Guest, arguments: str) -> list[int]:
    """The pages on each node afterwards, the hinting faults meanwhile, and the pages that moved."""
    counters = r"grep -E '^numa_(hint_faults|pages_migrated) ' /proc/vmstat"
    before = [int(line.split()[1]) for line in shell(guest, counters).splitlines()]
    on_node = list(map(int, shell(guest, f"/lab/p {arguments}").split()))
    after = [int(line.split()[1]) for line in shell(guest, counters).splitlines()]
    return on_node + [b - a for a, b in zip(before, after, strict=True)]
