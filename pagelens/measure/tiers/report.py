"""Reports the two memories: a table in the form of table I of LLNL's SC16 poster 107, and JSON."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import pagelens
from pagelens.measure.tiers.device import Facts
from pagelens.measure.tiers.measurement import CHASE, STREAM_BYTES, TIERS, Figures, Measured
from pagelens.report import terminal_width
from pagelens.units import format_binary_size

SCHEMA_VERSION = 1  # of the JSON; a version only adds
SIMULATED = "simulator: times say nothing"
_NAMES = {"host": "pinned host memory", "device": "device memory"}
_COUNTED = (
    "10^9 bytes a second that the kernel reads and writes, as STREAM counts: 16 an element of copy and "
    "scale, 24 of add and triad; of the chase, nanoseconds a load that waits for the one before it"
)


def title(facts: Facts) -> str:
    """Return the name of the device."""
    if facts.simulator:
        return f"{facts.name} ({SIMULATED})"
    return f"{facts.name}, {facts.processors} SMs"


def render(measured: Measured, notes: Sequence[str]) -> str:
    """Return the report as plain text."""
    sections = [_head(measured), _table(measured), _remarks(notes)]
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _head(m: Measured) -> Iterator[str]:
    yield from textwrap.wrap(
        f"STREAM and a chase from the device: {title(m.facts)}; arrays of "
        f"{format_binary_size(m.array_bytes)}, {m.rounds} rounds. {_COUNTED}.",
        terminal_width(),
    )


def _table(m: Measured) -> Iterator[str]:
    host, device = (_NAMES[tier] for tier in TIERS)
    yield f"{'':<13} {host:^26} {device:^26} {'ratio of':>10}".rstrip()
    yield f"{'':<13}" + f" {'best':>8} {'median':>8} {'spread':>8}" * 2 + f" {'the best':>10}"
    for kernel in (*STREAM_BYTES, CHASE):
        unit = "ns" if kernel == CHASE else "GB/s"
        if m.facts.simulator:
            yield f"{f'{kernel} ({unit})':<13}" + f" {'-':>8}" * 6 + f" {'-':>10}"
            continue
        cells = "".join(_cells(m.figures[tier, kernel]) for tier in TIERS)
        yield f"{f'{kernel} ({unit})':<13}{cells} {m.ratio(kernel):>9.2f}x"
    if not m.facts.simulator:
        yield f"{'normalized over host memory':<67} {m.normalized:>9.2f}x"


def _cells(figures: Figures) -> str:
    return f" {figures.best:>8.5g} {figures.median:>8.5g} {figures.spread:>8.1%}"


def _remarks(notes: Sequence[str]) -> Iterator[str]:
    yield from textwrap.wrap(
        "Spread: from the lowest to the highest, over the median. Normalized: sums of STREAM's best.",
        terminal_width(),
    )
    for note in notes:
        yield from textwrap.wrap(note, terminal_width())


def to_json(measured: Measured, notes: Sequence[str], seed: int) -> dict[str, Any]:
    """Return everything by name: rates in 10^9 bytes/s, the chase in nanoseconds, sizes in bytes."""
    facts = measured.facts
    return {
        "schema": "pagelens measure",
        "version": SCHEMA_VERSION,
        "kernel": "tiers",
        "title": title(facts),
        "simulator": facts.simulator,
        "counted": _COUNTED,
        "settings": {"array_bytes": measured.array_bytes, "trials": measured.rounds, "seed": seed},
        "system": {
            "pagelens": pagelens.__version__,
            "device": facts.name,
            "processors": facts.processors,
            "clock_hz": facts.clock_hz,
            "cache_bytes": facts.cache_bytes,
            "memory_bytes": facts.memory_bytes,
        },
        "results": [_result(figures) for figures in measured.figures.values()],
        "ratios": {kernel: measured.ratio(kernel) for kernel in (*STREAM_BYTES, CHASE)},
        "normalized": measured.normalized,
        "notes": list(notes),
    }


def _result(figures: Figures) -> dict[str, Any]:
    return {
        "memory": figures.tier,
        "kernel": figures.kernel,
        "unit": "GB/s" if figures.rate else "ns",
        "values": figures.values.tolist(),
        "best": figures.best,
        "median": figures.median,
        "spread": figures.spread,
    }
