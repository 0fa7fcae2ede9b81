"""Parses what the command line names: numbers and sweeps, kernels, instructions, orders, stores, processors.

All functions raise UsageError for an unknown or impossible value.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pagelens import _probes
from pagelens.errors import UsageError
from pagelens.host.process_binding import named_processors

_MOST_POINTS = 4096

_Choice = TypeVar("_Choice", _probes.Isa, _probes.Order, _probes.Stores)


def numbers(text: str, name: str, parse: Callable[[str], int]) -> list[int]:
    """Return the numbers of "0,512" or "0:32768:512", with the last one included."""
    found: list[int] = []
    for part in text.split(","):
        bounds = [parse(word) for word in part.split(":")]
        if len(bounds) == 1:
            found.append(bounds[0])
        elif len(bounds) == 3 and bounds[2] > 0 and bounds[0] <= bounds[1]:
            found.extend(range(bounds[0], bounds[1] + 1, bounds[2])[: _MOST_POINTS + 1])
        else:
            raise UsageError(f"{name} {part!r}: a number, or FIRST:LAST:STEP with a step above 0")
    if len(found) > _MOST_POINTS:
        raise UsageError(f"{name} {text!r}: at most {_MOST_POINTS} points")
    return list(dict.fromkeys(found))


def whole(text: str, name: str) -> int:
    """Return a number of doubles. Errors call it `name`."""
    if not text.strip().isdecimal() or len(text.strip()) > 12:
        raise UsageError(f"{name} {text!r}: a whole number of doubles, 0 or more")
    return int(text)


def some(text: str, known: Sequence[str], name: str) -> list[str]:
    """Return the names in "copy,add", each once."""
    names = [part.strip().lower() for part in text.split(",")]
    wrong = next((part for part in names if part not in known), None)
    if wrong is not None:
        raise UsageError(f"{name} {wrong!r}: some of {', '.join(known)}, with commas between")
    return list(dict.fromkeys(names))


def isa_of(name: str | None) -> _probes.Isa:
    """Return the named instructions, or else the widest that the processor executes whole."""
    have = {isa.name: isa for isa in _probes.isas()}
    return _chosen(name, have, "--isa", "this processor has") or _probes.best_isa()


def order_of(name: str | None, sweep: bool) -> _probes.Order:
    """Return the named order. If none is named, arrays are spread, which is faster.

    A sweep of OFFSETs walks arrays in turn, as STREAM does.
    """
    known = {"in-turn": _probes.Order.in_turn, "spread": _probes.Order.spread}
    return _chosen(name, known, "--order") or (_probes.Order.in_turn if sweep else _probes.Order.spread)


def stores_of(name: str | None, kernel: _probes.StreamKernel, n: int, cpus: Sequence[int]) -> _probes.Stores:
    """Return the named stores, or else stores that bypass the caches if the arrays are larger than these."""
    known = {"plain": _probes.Stores.plain, "nontemporal": _probes.Stores.nontemporal}
    return _chosen(name, known, "--stores") or _probes.better_stores(kernel, n, list(cpus))


def cpus_of(text: str | None) -> list[int]:
    """Return the named processors, or else all that this process may run on."""
    return sorted(os.sched_getaffinity(0)) if text is None else named_processors(text, "--cpus")


def _chosen(
    name: str | None, known: Mapping[str, _Choice], option: str, has: str = "one of"
) -> _Choice | None:
    """Return the named choice, or None if the choice is left to us."""
    if name is None or name == "auto":
        return None
    if name not in known:
        raise UsageError(f"{option} {name!r}: auto, or {has} {', '.join(known)}")
    return known[name]
