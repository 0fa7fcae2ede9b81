"""`measure numa`, and the NUMA nodes that `machines detect` finds: fake trees, real loops, a real kernel."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from machine_trees import damaged_trees, lay_out, read_tree
from zonesort_guest import shell

from pagelens.cli.text.measure_numa import render_numa
from pagelens.errors import Failure, UsageError
from pagelens.host.memory_policy import bound_to
from pagelens.lab.emulator import NumaSpeed
from pagelens.lab.guest import Guest
from pagelens.machine import parse_machine
from pagelens.machine.detect import System, detect_whole, with_measured_nodes
from pagelens.measure import NodeMatrix, measure_nodes, node_matrix

NODE = "sys/devices/system/node/node"
MIB = 1 << 20


def two_sockets(**files: str) -> dict[str, bytes]:
    """The tree of two Xeon 8160 with SLIT, and with these files of its nodes."""
    tree = read_tree("two-socket-8160")
    added = {"0/distance": "10 21\n", "1/distance": "21 10\n", **files}
    return tree | {NODE + name: text.encode() for name, text in added.items()}


def hmat(node: int, near: int, rate: int, time: int) -> dict[str, str]:
    folder = f"{node}/access0/initiators"
    return {
        f"{folder}/read_bandwidth": str(rate),
        f"{folder}/read_latency": str(time),
        f"{folder}/node{near}": "",  # a link in sysfs
    }


def test_two_sockets_become_two_nodes(tmp_path: Path) -> None:
    described = hmat(0, 0, 105_000, 90) | hmat(1, 1, 104_000, 92)
    machine = parse_machine(
        detect_whole(lay_out(two_sockets(**described), tmp_path)).to_toml().encode(), "x.toml"
    )
    assert machine.title == "Intel Xeon Platinum 8160 (48 cores, 2 NUMA nodes)"
    topology = machine.topology
    assert topology.cores == (24, 24)
    assert topology.distances == ((10, 21), (21, 10))
    assert np.allclose(topology.latency, [[90e-9, 92e-9 * 2.1], [90e-9 * 2.1, 92e-9]], rtol=1e-3)
    assert np.allclose(topology.bandwidth, [[105e9, 104e9 / 3], [105e9 / 3, 104e9]], rtol=1e-3)
    assert machine.l3 is not None
    assert machine.l3.shared_by is not None
    assert machine.l3.shared_by.value == 24
    assert machine.numa is not None
    assert machine.numa.distances is not None
    assert machine.numa.distances.label == "source"
    assert machine.numa.latencies.label == "assumed"  # HMAT has the nearest processors only


def test_memory_without_processors_comes_last(tmp_path: Path) -> None:
    """The kernel's node 1 is CXL memory near node 0, and node 2 is the second socket."""
    tree = two_sockets()
    for name in [name for name in tree if name.startswith(f"{NODE}1/")]:
        tree[name.replace("node1/", "node2/")] = tree.pop(name)
    added = {
        "0/distance": "10 14 21", "1/distance": "255 10 255", "2/distance": "21 24 10",
        "1/meminfo": "Node 1 MemTotal: 33554432 kB", "1/cpulist": "", **hmat(1, 0, 17_600, 280),
    }  # fmt: skip
    tree |= {NODE + name: text.encode() for name, text in added.items()}
    topology = parse_machine(detect_whole(lay_out(tree, tmp_path)).to_toml().encode(), "x.toml").topology
    assert (topology.cores, topology.rows) == ((24, 24, 0), 2)
    assert topology.sizes[2] == 32 << 30
    assert topology.distances == ((10, 21, 14), (21, 10, 24), (14, 24, 10))
    assert topology.latency[:, 2] == pytest.approx([280e-9, 280e-9 * 24 / 14], rel=1e-3)
    assert topology.bandwidth[:, 2] == pytest.approx([17.6e9, 17.6e9])


@pytest.mark.parametrize("wrong", ["10", "10 10", "10 300", "11 21", ""])
def test_distances_that_make_no_sense_are_left_out(wrong: str, tmp_path: Path) -> None:
    system = lay_out(two_sockets(**{"0/distance": wrong}), tmp_path)
    machine = parse_machine(detect_whole(system).to_toml().encode(), "x.toml")
    assert machine.numa is not None
    assert (machine.numa.distances is None) == (wrong != "10 300")


def test_nodes_that_make_no_machine_leave_one_socket(tmp_path: Path) -> None:
    """An L3 of 24 cores cannot be shared within a node of 23."""
    found = detect_whole(lay_out(two_sockets(**{"1/cpulist": "24-46"}), tmp_path))
    assert "numa" not in found.sections
    assert found.title.endswith("one of 2 sockets)")


@settings(max_examples=8, deadline=None)
@given(damaged_trees(("two-socket-8160",), most=6))
def test_damaged_nodes_still_give_a_sound_file(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = detect_whole(lay_out(files, Path(folder))).to_toml()
    parse_machine(text.encode(), "x.toml")


def test_what_was_measured_replaces_both_matrices(tmp_path: Path) -> None:
    system = lay_out(two_sockets(), tmp_path)
    found = detect_whole(system)
    latency, rate = {0: (80e-9, 140e-9), 1: (141e-9, 81e-9)}, {0: (100e9, 30e9), 1: (31e9, 101e9)}
    found.sections |= with_measured_nodes(found.sections, (0, 1), latency, rate)
    machine = parse_machine(found.to_toml().encode(), "x.toml")
    assert np.allclose(machine.topology.latency, list(latency.values()))
    assert np.allclose(machine.topology.bandwidth, list(rate.values()))
    assert machine.ddr.bandwidth.value == pytest.approx(201e9)
    assert machine.ddr.latency.value == pytest.approx(80e-9)


def test_memory_without_processors_is_as_slow_as_it_is_far(tmp_path: Path) -> None:
    for node, (cpus, distances) in enumerate((("0-3", "10 20 30"), ("4-7", "20 10 40"), ("", "30 40 10"))):
        path = tmp_path / f"{NODE}{node}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(cpus)
        (path / "distance").write_text(distances)
        (path / "meminfo").write_text(f"Node {node} MemTotal: 16777216 kB\n")
    topology = parse_machine(detect_whole(System(tmp_path)).to_toml().encode(), "x.toml").topology
    assert np.allclose(topology.latency, [[100e-9, 200e-9, 300e-9], [200e-9, 100e-9, 400e-9]])


def here_as_two_nodes(folder: Path) -> System:
    """Two of this machine's processors as a node each."""
    first, second = sorted(os.sched_getaffinity(0))[:2]
    for node, cpu in enumerate((first, second)):
        path = folder / f"{NODE}{node}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(str(cpu))
        (path / "meminfo").write_text(f"Node {node} MemTotal: 1048576 kB\nNode {node} MemFree: 524288 kB\n")
    return System(folder)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_every_pair_is_measured_alone_and_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loops are real, and only that there are two nodes is not."""
    bound: list[int] = []
    monkeypatch.setattr(node_matrix, "bound_to", lambda node: bound.append(node) or nullcontext())
    monkeypatch.setattr(
        node_matrix, "nodes_of_pages", lambda pages: np.full(len(pages), bound[-1], dtype=np.int32)
    )
    reports: list[tuple[int, int]] = []
    found = measure_nodes(
        4 * MIB, 1, lambda done, total: reports.append((done, total)), here_as_two_nodes(tmp_path)
    )
    assert bound == [0, 1]
    assert (list(found.cpus), found.columns, found.size_bytes) == ([0, 1], (0, 1), 4 * MIB)
    for rows in (found.latency_s, found.bandwidth):
        assert [len(row) for row in rows.values()] == [2, 2]
        assert min(value for row in rows.values() for value in row) > 0
    assert set(found.own_at_once) == set(found.other_at_once) == {0, 1}
    assert reports[0] == (0, 6)
    assert reports[-1] == (6, 6)
    assert [row["node"] for row in found.to_json()["rows"]] == [0, 1]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_memory_that_lies_elsewhere_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = here_as_two_nodes(tmp_path)
    monkeypatch.setattr(node_matrix, "bound_to", lambda node: nullcontext())
    monkeypatch.setattr(
        node_matrix, "nodes_of_pages", lambda pages: np.arange(len(pages), dtype=np.int32) % 2
    )
    with pytest.raises(Failure, match="node 0: its pages lie elsewhere"):
        measure_nodes(4 * MIB, 1, system=system)
    with pytest.raises(UsageError, match=r"--size 537 MB: at most 268 MB"):
        measure_nodes(512 * MIB, 1, system=system)


def test_a_node_that_is_not_there_cannot_be_bound() -> None:
    with pytest.raises(Failure, match="node 1000: its memory cannot be bound"), bound_to(1000):
        pass


@pytest.mark.parametrize("nodes", [1, 2, 16])
def test_matrices_fit_the_terminal(nodes: int) -> None:
    row: Mapping[int, tuple[float, ...]] = dict.fromkeys(range(nodes), (1.234e-07,) * nodes)
    rates = dict.fromkeys(range(nodes), (123400000000.0,) * nodes)
    once = dict.fromkeys(range(nodes), 1.234e11)
    found = NodeMatrix(
        {node: (node,) for node in range(nodes)}, tuple(range(nodes)), 64 * MIB, row, rates, once,
        once if nodes > 1 else {},
    )  # fmt: skip
    lines = list(render_numa(found))
    assert max(map(len, lines)) <= 80
    assert ("one NUMA node" in lines[0]) == (nodes == 1)
    assert len(re.findall(r"123\.4", " ".join(lines))) >= 2 * nodes * nodes


def test_what_caches_hold_is_not_called_memory() -> None:
    row, rate = {0: (1e-8,)}, {0: 1e11}
    said = [
        " ".join(render_numa(NodeMatrix({0: (0,)}, (0,), size * MIB, row, row, rate, {}, 32 * MIB)))
        for size in (4, 63, 64)
    ]
    assert ["these are not the speeds of memory alone" in text for text in said] == [True, True, False]


@pytest.mark.parametrize(
    ("cache", "expected"), [(16 * MIB, 64 * MIB), (100 * MIB, 256 * MIB), (200 * MIB, None)]
)
def test_the_usual_size_is_what_a_full_node_has_room_for(
    cache: int, expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Read(Exception):
        pass

    def memory(node: int, size: int, cpu: int, several: bool) -> None:
        raise Read(size)

    monkeypatch.setattr(node_matrix._probes, "last_level_bytes", lambda _: cache)
    monkeypatch.setattr(node_matrix, "_memory_on", memory)
    refused = UsageError if expected is None else Read
    with pytest.raises(refused, match="free some of its memory" if expected is None else str(expected)):
        measure_nodes(system=here_as_two_nodes(tmp_path))


@pytest.mark.parametrize("size", ["", "0B"])
def test_no_size_is_not_the_usual_size(
    size: str, tmp_path: Path, pagelens: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = pagelens("measure", "numa", "--size", size, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "size" in done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_whole_machine_is_not_measured_from_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = here_as_two_nodes(tmp_path)
    first = min(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {first})
    with pytest.raises(UsageError, match="no processor of node 1; run it without taskset"):
        measure_nodes(4 * MIB, 1, system=system, whole=True)


def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pagelens", "measure", "numa", "--size", "4MiB", "--repeats", "1"]
    done = subprocess.run([*command, "-o", tmp_path / "out"], capture_output=True, text=True, check=True)
    assert "GB/s" in done.stdout
    assert (tmp_path / "out" / "measure.json").exists()


@pytest.mark.long
def test_what_a_kernel_shows_of_slit_and_hmat_becomes_the_file(tmp_path: Path) -> None:
    speeds = [NumaSpeed(100e9, 90e-9), NumaSpeed(50e9, 120e-9)]
    with Guest("6.1", 1024 * MIB, nodes=2, cpus=2, speeds=speeds, distances=[[10, 21], [21, 10]]) as guest:
        names = shell(guest, f"find /{NODE}0 /{NODE}1 -maxdepth 3").splitlines()
        for name in (each for each in names if re.search(r"/(cpulist|meminfo|distance|read_\w+)$", each)):
            file = tmp_path / name.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(shell(guest, f"cat {name}") + "\n")
        for name in (each for each in names if re.search(r"initiators/node\d+$", each)):
            (tmp_path / name.lstrip("/")).touch()
    topology = parse_machine(detect_whole(System(tmp_path)).to_toml().encode(), "x.toml").topology
    assert topology.distances == ((10, 21), (21, 10))
    assert np.diagonal(topology.bandwidth) == pytest.approx([100e9, 50e9], rel=0.01)
    assert np.diagonal(topology.latency) == pytest.approx([90e-9, 120e-9], rel=0.02)
    assert topology.latency[0, 1] == pytest.approx(2.1 * 120e-9, rel=0.02)
