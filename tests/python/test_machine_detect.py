"""`pagelens machines detect`: what is made of captured trees, of damaged ones, and of this machine."""

import re
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from machine_trees import NAMES, TREES, damaged_trees, lay_out, read_tree

from pagelens import _core
from pagelens.cli.main import main
from pagelens.host.numa_nodes import NumaNode
from pagelens.machine import Machine, parse_machine, read_machine_file
from pagelens.machine.detect import System, detect
from pagelens.machine.detect.memory import describe
from pagelens.machine.values import stated_values


def detected(name: str, root: Path) -> Machine:
    return parse_machine(detect(lay_out(read_tree(name), root)).to_toml().encode(), "x.toml")


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_tree_gives_its_machine_file(name: str, tmp_path: Path) -> None:
    assert detect(lay_out(read_tree(name), tmp_path)).to_toml() == (TREES / f"{name}.toml").read_text()
    assert read_machine_file(TREES / f"{name}.toml").name == "this-machine"


def test_a_guest_is_called_one(tmp_path: Path) -> None:
    machine = detected("guest-genoa", tmp_path)
    assert machine.hypervisor == "KVM"
    assert machine.title == "AMD EPYC (2 cores, a guest of KVM)"
    assert (machine.cores.count.value, machine.l2.size.value, machine.l2.sets) == (2, 1 << 20, 2048)
    assert machine.cores.frequency.label == "assumed"


def test_a_single_node_has_all_memory(tmp_path: Path) -> None:
    """A node's own file may not tell of memory that was plugged in later."""
    files = read_tree("guest-genoa") | {"proc/meminfo": b"MemTotal:       131981020 kB\n"}
    machine = parse_machine(detect(lay_out(files, tmp_path)).to_toml().encode(), "x.toml")
    assert machine.ddr.size.value == 131981020 << 10
    assert machine.ddr.size.source is not None
    assert machine.ddr.size.source.startswith("/proc/meminfo: MemTotal")


def test_a_knl_in_flat_mode_has_its_mcdram_as_the_fast_memory(tmp_path: Path) -> None:
    machine = detected("knl-flat", tmp_path)
    assert (machine.mode, machine.hypervisor) == ("flat", None)
    assert machine.cores.count.value == 68
    assert (machine.l1.shared_by.value, machine.l2.shared_by.value) == (1, 2)
    assert machine.fast_memory is not None
    assert machine.fast_memory.size.value == 16514780 << 10
    assert machine.fast_memory.bandwidth.value == 355e9  # its kind's
    assert machine.ddr.size.value == 98820824 << 10


def test_a_knl_without_such_a_node_is_in_cache_mode(tmp_path: Path) -> None:
    machine = detected("knl-cache", tmp_path)
    assert machine.mode == "cache"
    assert machine.fast_memory is not None
    assert (machine.fast_memory.size.value, machine.fast_memory.size.label) == (16 << 30, "assumed")


def test_of_two_sockets_one_is_described(tmp_path: Path) -> None:
    machine = detected("two-socket-8160", tmp_path)
    assert machine.title == "Intel Xeon Platinum 8160 (24 cores, one of 2 sockets)"
    assert machine.mode == "single"
    assert (machine.cores.count.value, machine.cores.frequency.value) == (24, 2.1e9)
    assert machine.ddr.size.value == 97585196 << 10
    assert machine.ddr.technology is not None
    assert machine.ddr.technology.value == "6 x DDR4-2666"
    assert machine.ddr.bandwidth.value == pytest.approx(6 * 2666e6 * 8)


def test_what_the_firmware_says_of_memories_is_taken(tmp_path: Path) -> None:
    machine = detected("max-9480-cache", tmp_path)
    assert machine.mode == "cache"
    assert machine.fast_memory is not None
    assert machine.fast_memory.size.value == 64 << 30
    assert machine.memory_side_cache is not None
    assert machine.memory_side_cache.ways.label == "source"
    assert (machine.ddr.bandwidth.value, machine.ddr.bandwidth.label) == (235e9, "source")
    assert machine.ddr.latency.value == pytest.approx(118e-9)


def test_what_no_memory_has_is_not_taken_from_the_firmware() -> None:
    node = NumaNode("node0", 1 << 34, frozenset({0}), 10**17, 1_000_001, None, False)
    found = describe([node], [], 1)
    assert (found.bandwidth, found.latency) == (None, None)


def test_memory_without_processors_that_is_slower_is_the_lower_tier(tmp_path: Path) -> None:
    machine = detected("genoa-cxl", tmp_path)
    assert machine.mode == "flat"
    assert machine.fast_memory is not None
    assert (machine.fast_memory.bandwidth.value, machine.ddr.bandwidth.value) == (460e9, 56e9)
    assert machine.ddr.latency.value == pytest.approx(255e-9)


@pytest.mark.parametrize(
    ("vendor", "family", "model", "base"),
    [
        ("GenuineIntel", 6, 0x3F, "haswell-ep"),
        ("GenuineIntel", 6, 0x4F, "broadwell-ep"),
        ("GenuineIntel", 6, 0xCF, "emerald-rapids"),
        ("GenuineIntel", 6, 0xAD, "sapphire-rapids"),  # whose cores a Granite Rapids has
        ("AuthenticAMD", 23, 0x31, "rome"),
        ("AuthenticAMD", 26, 0x02, "turin"),
    ],
)
def test_what_processors_of_a_kind_share_is_their_familys(
    vendor: str, family: int, model: int, base: str, tmp_path: Path
) -> None:
    root = lay_out(read_tree("two-socket-8160"), tmp_path).root
    cpuinfo = root / "proc/cpuinfo"
    text = cpuinfo.read_text().replace("GenuineIntel", vendor)
    text = re.sub(r"(cpu family\t: )\d+", rf"\g<1>{family}", text)
    cpuinfo.write_text(re.sub(r"(model\t\t: )\d+", rf"\g<1>{model}", text))
    found = detect(System(root))
    assert found.base == f"family/{base}"
    machine = parse_machine(found.to_toml().encode(), "x.toml")
    assert machine.l3 is not None
    assert machine.l3.latency.label == "assumed"
    assert machine.pipeline is not None


def test_the_cores_of_an_arm_machine_are_no_x86_cores(tmp_path: Path) -> None:
    root = lay_out(read_tree("two-socket-8160"), tmp_path).root
    for text, found in (("vendor_id\t: GenuineIntel\n", "x86-64"), ("CPU implementer\t: 0x41\n", "AArch64")):
        (root / "proc/cpuinfo").write_text(f"processor\t: 0\n{text}")
        machine = parse_machine(detect(System(root)).to_toml().encode(), "x.toml")
        assert machine.instruction_set == found


@pytest.mark.parametrize(
    ("flags", "base"),
    [("hypervisor amx_tile", "family/sapphire-rapids"), ("hypervisor", None), ("amx_tile", None)],
)
def test_a_guest_of_another_model_is_known_by_its_flags(flags: str, base: str | None, tmp_path: Path) -> None:
    root = lay_out(read_tree("two-socket-8160"), tmp_path).root
    cpuinfo = root / "proc/cpuinfo"
    text = re.sub(r"(model\t\t: )\d+", r"\g<1>167", cpuinfo.read_text())
    cpuinfo.write_text(re.sub(r"(flags\t\t: )", rf"\g<1>{flags} ", text))
    found = detect(System(root))
    assert found.base == base
    parse_machine(found.to_toml().encode(), "x.toml")


@pytest.mark.parametrize(
    ("name", "where", "l1", "l2"),
    [
        ("westmere-cpuid", "CPUID leaf 0x4", (1 << 15, 8), (1 << 18, 8)),
        ("hwloc-only", "hwloc", (1 << 15, 8), (1 << 19, 8)),
    ],
)  # fmt: skip
def test_caches_that_sysfs_does_not_show(
    name: str, where: str, l1: tuple[int, ...], l2: tuple[int, ...], tmp_path: Path
) -> None:
    machine = detected(name, tmp_path)
    for cache, expected in ((machine.l1, l1), (machine.l2, l2)):
        assert (cache.size.value, cache.ways.value, cache.size.source) == (*expected, where)


def test_of_nothing_all_is_assumed(tmp_path: Path) -> None:
    text = detect(System(tmp_path)).to_toml()
    machine = parse_machine(text.encode(), "x.toml")
    assert {stated.value.label for stated in stated_values(machine)} == {"assumed"}


@settings(max_examples=50)
@given(damaged_trees(NAMES, most=6))
def test_a_damaged_tree_still_gives_a_sound_file(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = detect(lay_out(files, Path(folder))).to_toml()
    parse_machine(text.encode(), "x.toml")


def test_the_processor_answers_for_itself() -> None:
    _, b, c, d = _core.cpuid(0, 0)
    vendor = b"".join(word.to_bytes(4, "little") for word in (b, d, c)).decode()
    assert f"vendor_id\t: {vendor}\n" in Path("/proc/cpuinfo").read_text()
    assert list(_core.cpuid(0x3FFF0000, 0)) == list(_core.cpuid(0x8FFF0000, 0)) == [0, 0, 0, 0]


def test_the_machine_that_this_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "here.toml"
    monkeypatch.setattr(sys, "argv", ["pagelens", "machines", "detect", "-o", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code is None or ended.value.code == 0
    printed = capfd.readouterr()
    assert printed.out.startswith(f"{file}: ")
    machine = read_machine_file(file)
    assert ("frames are the guest's" in printed.err) == (machine.hypervisor is not None)
    assert list(tmp_path.iterdir()) == [file]
