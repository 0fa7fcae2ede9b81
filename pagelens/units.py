"""Quantities with units: "17.6GB", "90 GB/s", "154 ns", "1.4 GHz".

A number without a unit is an error, never a guess: 16 could be GB or GiB, and the difference (7%) decides
whether a job fits into a cache. Decimal prefixes are powers of 1000, binary ones (KiB, MiB, GiB, TiB) powers
of 1024.

Each quantity is shown in one kind of unit everywhere. What a program has and moves (footprints, objects,
traffic, files) is decimal. So are rates, because bytes divided by bandwidth are seconds. What hardware and
kernels have in powers of two (caches, memories, pages, blocks) is binary. If one is compared with the other,
both are decimal.
"""

import math
import re
from collections.abc import Mapping

from pagelens.errors import UsageError

SIZE_UNITS: Mapping[str, int] = {
    "B": 1,
    "kB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip
RATE_UNITS: Mapping[str, int] = {f"{unit}/s": scale for unit, scale in SIZE_UNITS.items()}
TIME_UNITS: Mapping[str, float] = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
FREQUENCY_UNITS: Mapping[str, float] = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}

# Large and small letters do not matter otherwise, but with a large prefix everybody means bits by this.
_BITS = re.compile(r"[MGT]i?b/s")
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z/]*)\s*")


def parse_size(text: str, name: str = "size") -> int:
    """Return the bytes of "17.6GB", "16GiB" or "64 B", rounded. Errors call the value `name`."""
    return round(_parse(text, name, SIZE_UNITS, "a size", "17.6GB (10^9 bytes) or 16GiB (2^30 bytes)"))


def parse_rate(text: str, name: str = "rate") -> float:
    """Return the bytes a second of "90 GB/s"."""
    return _parse(text, name, RATE_UNITS, "a rate", "90GB/s")


def parse_time(text: str, name: str = "time") -> float:
    """Return the seconds of "154 ns"."""
    return _parse(text, name, TIME_UNITS, "a time", "154ns")


def parse_frequency(text: str, name: str = "frequency") -> float:
    """Return the hertz of "1.4 GHz"."""
    return _parse(text, name, FREQUENCY_UNITS, "a frequency", "1.4GHz")


def parse_share(text: str, name: str = "share") -> float:
    """Return 0.02 for "2%". The share must be more than 0% and at most 100%."""
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / 100 if number != text.strip() else 0.0
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"{name}: '{text}': a share is above 0% and at most 100%, as in 2%")
    return share


def format_size(size_bytes: float, digits: int = 3) -> str:
    """Return text such as "17.6 GB", in decimal units, for what a program has and moves.

    `digits` is the number of significant digits.
    """
    return _format(size_bytes, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)), digits)


def format_binary_size(size_bytes: float, digits: int = 3) -> str:
    """Return text such as "16 GiB", in binary units, for caches, memories and pages."""
    units = (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0))
    return _format(size_bytes, units, digits)


def format_rate(bytes_per_second: float, digits: int = 3) -> str:
    """Return text such as "90 GB/s"."""
    return f"{format_size(bytes_per_second, digits)}/s"


def format_time(seconds: float, digits: int = 3) -> str:
    """Return text such as "1.23 ms"."""
    units = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("ps", 1e-12))
    return _format(seconds if abs(seconds) >= 0.5e-12 else 0, units, digits)  # less is an error of rounding


def format_count(count: float, digits: int = 3) -> str:
    """Return a plain number with a decimal prefix, such as "1.23 G"."""
    return _format(count, (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)), digits).rstrip()


def format_share(share: float) -> str:
    """Return text such as "54%". A share that rounds to nothing is "<1%"."""
    return f"{100 * share:.0f}%" if share == 0 or share >= 0.005 else "<1%"


def split_quantity(text: str) -> tuple[float, str] | None:
    """Return the number and the unit of "90 GB/s", whatever the unit; None for another text."""
    match = _QUANTITY.fullmatch(text)
    return (float(match[1]), match[2]) if match else None


def _parse(text: str, name: str, units: Mapping[str, float], kind: str, example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UsageError(f"{name}: '{text}' is not {kind}; write a number and a unit, such as {example}")
    number, unit = match.groups()
    if not unit:
        raise UsageError(f"{name}: '{text}' has no unit; write {kind} with its unit, such as {example}")
    if _BITS.fullmatch(unit):
        raise UsageError(f"{name}: '{text}' counts bits; write {kind} in bytes, such as {example}")
    folded = {known.lower(): scale for known, scale in units.items()}
    if unit.lower() not in folded:
        raise UsageError(f"{name}: '{text}' has the unknown unit '{unit}'; known are {', '.join(units)}")
    value = float(number) * folded[unit.lower()]
    if not math.isfinite(value):
        raise UsageError(f"{name}: '{text}' is too large to be {kind}; write one such as {example}")
    return value


def _format(value: float, units: tuple[tuple[str, float], ...], digits: int) -> str:
    """Return `value` in the largest unit that leaves at least 1 after rounding."""
    if value == 0:
        return f"0 {next(unit for unit, scale in units if scale == 1)}".rstrip()
    rounded = [(float(f"{value / scale:.{digits}g}"), unit) for unit, scale in units]
    number, unit = next((pair for pair in rounded if abs(pair[0]) >= 1), rounded[-1])
    return f"{number:g} {unit}"
