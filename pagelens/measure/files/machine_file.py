"""Puts the section [io] of a measurement into a machine file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from statistics import median

import tomlkit

from pagelens.machine import measured_file
from pagelens.machine.detect.detected_value import size_text
from pagelens.measure.files.measured import Measured
from pagelens.measure.files.series import Times, times_of
from pagelens.units import format_rate, format_time

_RATES = {
    "copying": "copying",
    "sync_work": "sync_work",
    "joined_sync_work": "joined_sync_work",
    "small_folio_joined_sync_work": "small_folio_joined_sync_work",
    "close_work": "close_work",
    "truncating": "truncating",
    "small_folio_sync_work": "small_folio_sync_work",
    "small_folio_close_work": "small_folio_close_work",
    "small_folio_truncating": "small_folio_truncating",
    "write_rate": "write",
    "read_rate": "read",
}
_HERE = "measured here by `pagelens measure io`"


def kept_file(device: int) -> Path:
    """Return where the machine file with this device's [io] is kept for `pagelens io explain`."""
    return measured_file().with_name(f"this-machine-io-{device:x}.toml")


def file_with_io(machine_text: str, measured: Measured) -> str:
    """Return the machine file with the section, which replaces one that is there already."""
    document = tomlkit.parse(machine_text)
    document.pop("io", None)
    section = tomlkit.table()
    for key, value in _values(measured).items():
        row = tomlkit.inline_table()
        row.update(value)
        section[key] = row
    text = tomlkit.dumps(document).rstrip("\n") + "\n\n" + tomlkit.dumps({"io": section})
    tomllib.loads(text)
    return text


def _values(m: Measured) -> dict[str, dict[str, object]]:
    of, found = m.file_system, dict[str, dict[str, object]]()

    def source(key: str, value: object, where: str) -> None:
        found[key] = {"value": value, "source": where}

    source("file_system", of.type, f"/proc/self/mountinfo: {of.source} under {m.folder}")
    for kind, by_size in m.costs.items():
        least = min(times.repetitions for times in by_size.values())
        source(kind, [_row(size, times) for size, times in sorted(by_size.items())],
               f"{_HERE}: at least {least} repetitions, median and least")  # fmt: skip
    for kind in sorted({kind for kind, _, _ in m.in_flight}):
        rows = sorted(
            (depth, size, samples) for (of_, size, depth), samples in m.in_flight.items() if of_ == kind
        )
        least = min(len(samples) for _, _, samples in rows)
        table = [[depth, *_row(size, times_of(samples))] for depth, size, samples in rows]
        source(f"{kind}_in_flight", table,
               f"{_HERE}: at least {least} repetitions by io_submit, median and least")  # fmt: skip
    if of.direct:
        where = of.alignment_source
        for key, value in (
            ("direct_alignment", of.direct_alignment),
            ("memory_alignment", of.memory_alignment),
        ):
            if where:
                source(key, size_text(value), where)
            else:
                found[key] = {"value": size_text(value), "assumed": "this kernel or file system does not say"}
        source("direct_copies", of.direct_copies, f"{of.type}: its files are in memory, or not")
    if "sync" in m.seconds:
        source("sync", _time(m.seconds["sync"].wall_s), f"{_HERE}: 4 KiB written at the end and fsync")
        source("sync_cpu", _time(m.seconds["sync"].cpu_s), f"{_HERE}: 4 KiB written at the end and fsync")
    for key in ("opening", "creating", "call", "replacing_open", "replacing_close"):
        if key in m.seconds:
            source(key, _time(m.seconds[key].cpu_s), _HERE)
    for key, rate in _RATES.items():
        if rate in m.rates:
            source(key, format_rate(m.rates[rate], 3), _HERE)
    if m.interrupt_core is not None and m.other_core_s and (other := median(m.other_core_s)) > 0:
        source("interrupt_core", m.interrupt_core, "/proc/interrupts, before and after direct reads")
        source("other_core", _time(other), f"{_HERE}: direct reads of 4 KiB there and on another processor")
    if m.memory_stall_s is not None:
        source("memory_stall", _time(m.memory_stall_s), f"{_HERE}: pages that the process had left alone")
    source("writers", m.writers, _HERE)
    source("writers_apart", round(m.writers_apart, 3), f"{_HERE}: one core each")
    if m.two_writers_apart is not None:
        source("two_writers_apart", round(m.two_writers_apart, 3), f"{_HERE}: one core each")
    source("writers_together", round(m.writers_together, 3), f"{_HERE}: all on one core")
    if m.moments:
        count = min(map(len, m.moments.values()))
        source("spread", round(m.spread, 3), f"{_HERE}: the same loops at {count} moments")
    if of.dirty_limit:
        source("dirty_limit", size_text(of.dirty_limit), "/proc/sys/vm and /proc/meminfo")
    if of.read_ahead:
        source("read_ahead", size_text(of.read_ahead), "/sys/class/bdi")
    return found


def _row(size: int, times: Times) -> list[str]:
    return [size_text(size), _time(times.cpu_s), _time(times.wall_s)]


def _time(seconds: float) -> str:
    return format_time(seconds, 3)
