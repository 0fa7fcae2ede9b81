"""Derives the widths of the paths between caches from the rates at which one core sums what they hold.

A sum takes the time that the rule of `pagelens/machine/transfers.py` gives it, so the rule is solved for the
widths. Where loads and lines take turns, a sum from the L2 takes as long as its loads and its lines together,
and one from the L3 as long as these and the lines of the L3. Elsewhere the slowest of them decides.
"""

from collections.abc import Mapping

from pagelens import _probes
from pagelens.address.units import LINE_BYTES
from pagelens.errors import Failure
from pagelens.machine import Machine
from pagelens.machine.detect.detected_value import Found, read
from pagelens.measure.choices import cpus_of
from pagelens.units import format_binary_size, format_rate

_SUMS = 50  # so short that some are not interrupted on a busy machine; the best counts


def sum_rate(size: int) -> tuple[float, int]:
    """Return the bytes a second at which the first core sums `size` bytes, and the bytes of its loads."""
    known = {isa.name: isa for isa in _probes.isas()}
    isa, load = (known["avx2"], 32) if "avx2" in known else (known["sse2"], 16)
    cpu = cpus_of(None)[0]
    memory = _probes.Memory(size, _probes.Pages.transparent, [cpu], [0])
    try:
        found = _probes.l2sum(memory, size, size, 1, _SUMS, [cpu], isa)
    finally:
        memory.release()
    if not found.ok:
        raise Failure("machines detect: a sum was wrong; this machine's memory or processor has a defect")
    return float(size / found.seconds.min()), load


def path_widths(
    machine: Machine, clock: float, vector_bytes: int, rates: Mapping[str, tuple[int, float]]
) -> dict[str, Found]:
    """Return the bytes that a path moves in a cycle, by the section "l2" or "l3" of `rates`.

    `rates` has the bytes that one core sums repeatedly from each, and the bytes that it reads in a second, at
    `clock` and with loads of `vector_bytes`. A path that takes no time of its own is left out.
    """
    in_turn = machine.cores.transfers is not None and machine.cores.transfers.value == "in turn"
    before = 0.0  # cycles of a line that are not this path's
    if in_turn and machine.pipeline is not None:
        before = machine.pipeline.cycles_of_loads(0, LINE_BYTES // vector_bytes)
    found = {}
    for section in ("l2", "l3"):
        if section not in rates:
            continue
        size, rate = rates[section]
        cycles = LINE_BYTES * clock / rate
        if (own := cycles - before) > 0:
            turns = "; loads take turns with its lines" if in_turn else ""
            found[section] = read(
                float(f"{_moved(machine, section) * LINE_BYTES / own:.3g}"),
                f"measured here: one core sums {format_binary_size(size)} repeatedly, "
                f"{format_rate(rate, 3)}{turns}",
            )
        before = cycles if in_turn else 0.0
    return found


def _moved(machine: Machine, section: str) -> int:
    """Return the lines that take turns on the path for each line of a sum, which writes none.

    An L3 that holds what leaves an L2 takes a line for each that it gives.
    """
    l3 = machine.l3
    if section == "l2" or l3 is None or l3.inclusion.value not in ("victim", "exclusive"):
        return 1
    return 1 if l3.both_ways is not None and l3.both_ways.value else 2
