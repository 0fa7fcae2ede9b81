"""What `pagelens measure tiers` makes of a device's times and answers, on a device of NumPy."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from machine_roles import GPU

from pagelens.errors import Failure, UsageError
from pagelens.machine import parse_machine
from pagelens.measure.tiers.arrays import parse_array
from pagelens.measure.tiers.device import Facts
from pagelens.measure.tiers.machine_file import machine_text
from pagelens.measure.tiers.measurement import CHASE, LINE_BYTES, STREAM_BYTES, Measured, measure
from pagelens.measure.tiers.report import render, to_json

MIB = 1 << 20
H200 = Facts("NVIDIA H200", False, 132, 1.98e9, 50 * MIB, 150_754_820_096, 150_000_000_000)
# Table I of LLNL's SC16 poster 107: GB/s of slow and fast memory, and the ratio.
SANDY_BRIDGE = ((10.75, 10.74, 12.21, 12.23), (28.02, 28.13, 31.61, 31.76), 2.60)
KNL = ((50.78, 50.75, 57.04, 57.09), (206.39, 256.63, 279.09, 295.17), 4.81)


class NumpyDevice:
    """Does what kernels.py says, at the speeds that it is given: GB/s of each kernel, ns of a load."""

    def __init__(self, host: Sequence[float], device: Sequence[float], facts: Facts = H200) -> None:
        names = (*STREAM_BYTES, CHASE)
        self.facts = facts
        self.speeds = {
            "host": dict(zip(names, host, strict=True)),
            "device": dict(zip(names, device, strict=True)),
        }
        self.tiers: dict[int, str] = {}
        self.kept: list[np.ndarray] = []  # so that no two arrays have one id
        self.runs: list[tuple[str, str]] = []

    def empty(self, tier: str, count: int, dtype: type) -> np.ndarray:
        made = np.full(count, 99, dtype=dtype)
        self.kept.append(made)
        self.tiers[id(made)] = tier
        return made

    def write(self, array: np.ndarray, begin: int, values: np.ndarray) -> None:
        array[begin : begin + values.size] = values

    def read(self, array: np.ndarray, begin: int, end: int) -> np.ndarray:
        return array[begin:end].copy()

    def seconds(self, kernel: str, threads: int, *given: Any) -> float:
        tier = self.tiers[id(given[0])]
        self.runs.append((tier, kernel))
        for _ in range(2):
            self.run(kernel, *given)
        speed = self.speeds[tier][kernel]
        if kernel == CHASE:
            return float(given[1]) * speed * 1e-9
        return STREAM_BYTES[kernel] * threads / (speed * 1e9)

    def run(self, kernel: str, *given: Any) -> None:
        if kernel == "copy":
            given[0][:] = given[1]
        elif kernel == "scale":
            given[0][:] = given[2] * given[1]
        elif kernel == "add":
            given[0][:] = given[1] + given[2]
        elif kernel == "triad":
            given[0][:] = given[1] + given[3] * given[2]
        else:
            links, loads, at = given
            for _ in range(loads):
                at[0] = links[int(at[0])]


def poster(table: tuple[Sequence[float], Sequence[float], float]) -> Measured:
    slow, fast, _ = table
    return measure(NumpyDevice([*slow, 1000.0], [*fast, 350.0]), 4096, 3, seed=1)


@pytest.mark.parametrize("table", [SANDY_BRIDGE, KNL])
def test_speeds_and_ratios_are_those_of_the_document_s_table(
    table: tuple[Sequence[float], Sequence[float], float],
) -> None:
    found = poster(table)
    for tier, speeds in zip(("host", "device"), table[:2], strict=True):
        for kernel, speed in zip(STREAM_BYTES, speeds, strict=True):
            figures = found.figures[tier, kernel]  # type: ignore[index]
            assert figures.values == pytest.approx([speed] * 3)
            assert figures.spread == pytest.approx(0, abs=1e-12)
    assert found.normalized == pytest.approx(table[2], abs=0.005)
    assert found.figures["host", CHASE].median == pytest.approx(1000)
    assert found.ratio(CHASE) == pytest.approx(1000 / 350)


def test_memories_take_turns_and_the_first_round_does_not_count() -> None:
    device = NumpyDevice([1.0] * 5, [1.0] * 5)
    found = measure(device, 4096, 2, seed=1)
    one = [(tier, kernel) for tier in ("host", "device") for kernel in (*STREAM_BYTES, CHASE)]
    assert device.runs == one * 3
    assert all(figures.values.size == 2 for figures in found.figures.values())


@pytest.mark.parametrize("kernel", [*STREAM_BYTES, CHASE])
@pytest.mark.parametrize("tier", ["host", "device"])
def test_one_wrong_element_ends_the_run(kernel: str, tier: str) -> None:
    class Wrong(NumpyDevice):
        def run(self, name: str, *given: Any) -> None:
            super().run(name, *given)
            if name == kernel and self.tiers[id(given[0])] == tier:
                if name == CHASE:
                    given[2][0] = (given[2][0] + LINE_BYTES // 8) % given[0].size
                else:
                    given[0][17] *= 1 + 1e-12

    memory = "pinned host memory" if tier == "host" else "the device's memory"
    with pytest.raises(Failure, match=rf"answer is wrong \(.*, in {memory}\)"):
        measure(Wrong([1.0] * 5, [1.0] * 5), 4096, 2, seed=1)


def test_arrays_larger_than_a_chunk_are_filled_and_checked_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pagelens.measure.tiers.measurement._CHUNK", 1 << 14)
    device = NumpyDevice([1.0] * 5, [1.0] * 5)
    measure(device, 3 * 977 * 128 + 128, 1, seed=1)
    first = device.kept[0]  # array a of host memory, after two rounds
    assert first == pytest.approx(0.96**2 * (1 + np.arange(first.size) % 977 / 977))


def test_a_chase_meets_every_line_once_before_it_comes_back() -> None:
    device = NumpyDevice([1.0] * 5, [1.0] * 5)
    measure(device, 64 * LINE_BYTES, 1, seed=7)
    links = device.kept[3]
    where, met = 0, []
    for _ in range(64):
        met.append(where)
        where = int(links[where])
    assert where == 0
    assert sorted(met) == [16 * line for line in range(64)]
    assert met != sorted(met)


def test_the_table_is_80_columns_wide_and_has_the_document_s_form() -> None:
    found = poster(KNL)
    text = render(found, ["A note."])
    assert max(map(len, text.splitlines())) <= 80
    rows = {line.split()[0]: line.split() for line in text.splitlines() if "%" in line}
    assert rows["triad"][2:] == ["57.09", "57.09", "0.0%", "295.17", "295.17", "0.0%", "5.17x"]
    assert rows["chase"][-1] == "2.86x"
    assert re.search(r"normalized over host memory +4\.81x\n", text)
    assert "simulator" not in text


def test_json_has_every_round() -> None:
    said = json.loads(json.dumps(to_json(poster(KNL), [], seed=5)))
    assert said["normalized"] == pytest.approx(4.81, abs=0.005)
    assert said["system"]["processors"] == 132
    assert said["simulator"] is False
    (chase,) = (r for r in said["results"] if (r["memory"], r["kernel"]) == ("device", "chase"))
    assert chase["values"] == pytest.approx([350] * 3)
    assert chase["unit"] == "ns"
    assert len(said["results"]) == 10


def test_the_machine_file_is_of_the_device_that_was_measured() -> None:
    found = measure(NumpyDevice([35, 35, 36, 37.5, 1200], [4000, 4000, 4100, 4155, 350]), 4096, 2, seed=1)
    text = machine_text(found, 256 << 30)
    machine = parse_machine(text.encode(), f"{GPU}.toml")
    assert machine.fast_memory is not None
    assert machine.fast_memory.bandwidth.value == pytest.approx(4155e9)
    assert machine.fast_memory.latency.value == pytest.approx(350e-9)
    assert machine.fast_memory.size.value == H200.memory_bytes
    assert machine.ddr.bandwidth.value == pytest.approx(37.5e9)
    assert machine.ddr.write_bandwidth == machine.ddr.bandwidth.model_copy(
        update={"source": "the triad's, which contains its writes"}
    )
    assert machine.ddr.latency.value == pytest.approx(1.2e-6)
    assert "measured by pagelens measure tiers" in (machine.ddr.bandwidth.source or "")
    assert machine.device == "GPU"
    assert machine.cores.count.value == 132
    assert machine.cores.frequency.value == pytest.approx(1.98e9)
    assert machine.l3 is not None
    assert (machine.l3.size.value, machine.l3.slices.value) == (50 * MIB, 25)
    assert machine.title.startswith("NVIDIA H200 (132 SMs)")


@pytest.mark.parametrize(("processors", "cache"), [(108, 40 * MIB), (20, 1536 << 10), (304, 126 * MIB + 512)])
def test_other_devices_have_a_machine_file_too(processors: int, cache: int) -> None:
    facts = Facts("another", False, processors, 1.4e9, cache, 40 << 30, 39 << 30)
    text = machine_text(measure(NumpyDevice([900.0] * 5, [990.0] * 5, facts), 4096, 1, 1), 64 << 30)
    machine = parse_machine(text.encode(), f"{GPU}.toml")
    assert machine.l3 is not None
    assert 0 <= cache - machine.l3.size.value < 1024
    assert -(-processors // machine.l2.shared_by.value) <= 64


def test_arrays_are_above_the_cache_and_within_what_is_free() -> None:
    assert parse_array(None, H200, 64 << 30) == 1 << 30
    assert parse_array("1000000130B", H200, 64 << 30) == 1_000_000_128
    with pytest.raises(UsageError, match=r"--array 100MiB: each of 4 arrays .* has 210 MB \(four times"):
        parse_array("100MiB", H200, 64 << 30)
    with pytest.raises(UsageError, match=r"--array 40GiB: .* to 15.5 GB \(what is free\)"):
        parse_array("40GiB", H200, 64 << 30)
    with pytest.raises(UsageError, match=r"--array 40GiB: .* to 33.8 GB"):
        parse_array("40GiB", H200, 1 << 40)
