"""Judges how far a core's TLB reaches, and what a walk adds to a load, from chases with one line a page.

Each chase goes through so many pages of 4 KiB, and through as many bytes on large pages. What it takes longer
on small pages is translation alone. In a virtual machine a walk takes longer, because each of its steps needs
a walk of the host's tables. Where the host maps the guest's memory by small pages, loads need walks on large
pages of the guest too. Threads of one core share its TLB, so a program can have less of it than the
processor's documents state.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pagelens.address.units import FRAME_BYTES, LINE_BYTES
from pagelens.machine import Machine, Sourced
from pagelens.machine.detect.detected_value import Found, Value, read
from pagelens.machine.tlb import Tlb
from pagelens.units import format_binary_size

Section = dict[str, Found]
Points = Sequence[tuple[int, float]]  # pages, and ns that a load takes longer on small ones

_SHARES = (1 / 2, 3 / 4, 1, 2)  # of the entries, as pages of the chases; with the last, each load walks
_ALIKE = 7 / 8  # a TLB that has this share of its stated entries is as stated


def chased_pages(machine: Machine) -> list[int]:
    """Return the numbers of pages of the chases, ascending; with the last of them, each load needs a walk.

    All lines of a chase lie in L2.
    """
    array = _last(machine.tlb)
    entries = 1 if array is None else array.entries.value
    most = machine.l2.size.value // LINE_BYTES // 2
    return sorted({max(2, min(most, int(share * entries))) for share in _SHARES})


def walk_section(points: Points, frequency: float) -> dict[str, Section]:
    """Return what a walk adds to a load, if it adds any time. `frequency` is that of the core in Hz."""
    pages, ns = points[-1]
    cycles = round(1e-9 * ns * frequency)
    if cycles < 1:
        return {}
    source = f"measured here: {_chase(pages)} takes {ns:.3g} ns a load less on large pages"
    return {"page_walk": {"walk_cycles": read(cycles, source)}}


def host_section(points: Points, on_large: float, in_l2: float) -> dict[str, Section]:
    """Return the size of the host's pages, if loads of a guest's large pages need walks too; else nothing.

    A load of the longest chase takes `on_large` ns on large pages, whose translations all fit, and a load
    that hits L2 takes `in_l2`. Half of a walk is more than other causes add.
    """
    pages, walk = points[-1]
    if walk <= 0 or on_large - in_l2 < walk / 2:
        return {}
    source = (
        f"measured here: {_chase(pages)} takes {on_large:.3g} ns a load on large pages, and one within L2 "
        f"{in_l2:.3g} ns: so these need walks too"
    )
    return {"page_walk": {"host_page": read(format_binary_size(FRAME_BYTES), source)}}


def usable_arrays(arrays: Sequence[Tlb], points: Points) -> list[Section]:
    """Return all arrays as a file states them, if the largest has fewer ways than stated; else nothing.

    It reaches as far as half of the loads need no walk, by linear interpolation between two chases.
    """
    array, full_ns = _last(arrays), points[-1][1]
    if array is None or points[-1][0] <= array.entries.value or full_ns <= 0:
        return []
    reach = _crossing([(0, 0.0), *points], full_ns / 2)
    if reach >= _ALIKE * array.entries.value:
        return []
    ways = max(1, round(array.ways.value * reach / array.entries.value))
    source = (
        f"measured here: {_chase(points[-1][0])} and chases through fewer; half of the loads need a walk "
        f"from {round(reach)} pages on, and {array.entries.value} entries are stated"
    )
    changed = {
        "ways": read(ways, source),
        "entries": read(array.entries.value // array.ways.value * ways, source),
    }
    return [_section(each) | (changed if each is array else {}) for each in arrays]


def _last(arrays: Sequence[Tlb]) -> Tlb | None:
    """Return the array in which a page of 4 KiB is looked up last."""
    holding = [array for array in arrays if FRAME_BYTES in array.pages.value]
    return max(holding, key=lambda array: array.level.value, default=None)


def _crossing(points: Points, height: float) -> float:
    for (below, below_ns), (above, above_ns) in pairwise(points):
        if above_ns > height:
            return below + (above - below) * max(0.0, height - below_ns) / (above_ns - below_ns)
    return points[-1][0]


def _chase(pages: int) -> str:
    return f"a chase of pointers through {pages} pages of 4 KiB, one line a page,"


def _section(array: Tlb) -> Section:
    stated = {key: getattr(array, key) for key in type(array).model_fields}
    return {key: _found(value) for key, value in stated.items() if value is not None}


def _found(stated: Sourced[Any]) -> Found:
    value: Value = stated.value
    if isinstance(value, list):  # sizes of pages
        value = [format_binary_size(size) for size in stated.value]
    return Found(value, stated.label, stated.origin)
