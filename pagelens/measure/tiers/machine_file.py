"""Writes the machine file of a measured device, for `pagelens place --machine FILE`."""

from dataclasses import replace
from pathlib import Path

import tomlkit

from pagelens.errors import UsageError
from pagelens.machine import parse_machine
from pagelens.machine.detect.detected_value import Found, assumed, read, size_text
from pagelens.measure.tiers.measurement import CHASE, LINE_BYTES, Measured
from pagelens.measure.tiers.report import SIMULATED
from pagelens.units import format_binary_size

NAME = "gpu-host.toml"
BASE = "gpu-host"  # has what the driver does not say
_MOST_L2 = 64  # behind one L3: of the model
_WAYS = 16
_MODEL_LINE_BYTES = 64


def machine_file(found: Measured, host_bytes: int, path: Path) -> tuple[str, str]:
    """Return the text of the file `path`, which is empty if there can be none, and a note on it.

    The measurement is kept in any case.
    """
    if found.facts.simulator:
        return "", (
            f"{SIMULATED[0].upper()}{SIMULATED[1:]}. The kernels' answers are right; no machine file is "
            "written."
        )
    try:
        text = machine_text(found, host_bytes)
    except UsageError as error:
        return "", f"No machine file is written: the model has no place for this device ({error})."
    return text, f"Machine file: {path}; `pagelens place --machine {path} -- ./app` plans for this device."


def machine_text(measured: Measured, host_bytes: int) -> str:
    """Return the text of the file, with the medians of what was measured.

    `host_bytes` is the host memory that can be pinned.
    """
    facts = measured.facts
    assert not facts.simulator  # its times say nothing
    document = tomlkit.document()
    for line in (
        f"Written by `pagelens measure tiers` on {facts.name}.",
        f"What is not here is {BASE}'s, of the kind of an H200.",
        "Bandwidths are the triad's, the median of the rounds.",
    ):
        document.add(tomlkit.comment(line))
    document["schema"] = 1
    document["base"] = BASE
    document["name"] = "gpu-host-measured"
    document["title"] = f"{facts.name} ({facts.processors} SMs), measured, with pinned host memory"
    document["mode"] = "flat"
    for name, section in _sections(measured, host_bytes).items():
        table = tomlkit.table()
        for key, found in section.items():
            value = tomlkit.inline_table()
            value.update({"value": found.value, found.kind: found.note})
            table[key] = value
        document.add(tomlkit.nl())
        document[name] = table
    text = tomlkit.dumps(document)
    parse_machine(text.encode(), NAME)  # UsageError for a device that the model has no place for
    return text


def _sections(m: Measured, host_bytes: int) -> dict[str, dict[str, Found]]:
    facts = m.facts
    rounds = f"{m.rounds} rounds, arrays of {format_binary_size(m.array_bytes)}"
    return {
        "cores": {
            "count": read(facts.processors, "CUDA: multiprocessor count"),
            **_frequency(facts.clock_hz),
        },
        "l2": {
            "shared_by": assumed(
                -(-facts.processors // _MOST_L2),
                "nothing stays in it; the model takes at most 64 behind one L3",
            )
        },
        **_cache(facts.cache_bytes),
        "fast_memory": {
            "technology": read(f"device memory of {facts.name}", "CUDA: device name"),
            "size": read(size_text(facts.memory_bytes), "CUDA: total memory"),
            **_speeds(m, "device", rounds),
        },
        "ddr": {
            "technology": read("pinned host memory", "cudaHostAlloc, mapped"),
            "size": read(size_text(host_bytes), "/proc/meminfo: available when this was measured"),
            **(host := _speeds(m, "host", rounds)),
            "write_bandwidth": replace(host["bandwidth"], note="the triad's, which contains its writes"),
        },
    }


def _speeds(m: Measured, tier: str, rounds: str) -> dict[str, Found]:
    of = {kernel: figures for (where, kernel), figures in m.figures.items() if where == tier}
    by = "measured by pagelens measure tiers"
    return {
        "bandwidth": read(f"{of['triad'].median:.5g} GB/s", f"{by}: triad, {rounds}"),
        "latency": read(
            f"{of[CHASE].median:.5g} ns", f"{by}: a chase through lines of {LINE_BYTES} B, {rounds}"
        ),
    }


def _frequency(hertz: float) -> dict[str, Found]:
    return {"frequency": read(f"{hertz / 1e9:g} GHz", "CUDA: clock rate, the highest")} if hertz else {}


def _cache(size: int) -> dict[str, dict[str, Found]]:
    """Return a cache with as many slices as leave each a power of two of sets.

    Returns nothing if the driver knows of no cache.
    """
    lines = size // (_MODEL_LINE_BYTES * _WAYS)
    if lines == 0:
        return {}
    slices = lines // (lines & -lines)
    return {
        "l3": {
            "size": read(size_text(lines * _MODEL_LINE_BYTES * _WAYS), "CUDA: L2 cache size"),
            "ways": assumed(_WAYS, "not published"),
            "slices": assumed(slices, "not published; so that sets of a slice are a power of two"),
        }
    }
