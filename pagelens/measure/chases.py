"""Times accesses at random, in stretches so short that most of them are not interrupted.

A chase of pointers that lasts for a second shares its processor, its caches and its TLB with everything else
that runs meanwhile. In a stretch of a few milliseconds or less, it often has them for itself. The fastest
tenth of many stretches says how long a load takes then.
"""

from collections.abc import Sequence

import numpy as np

from pagelens import _probes
from pagelens.address.units import LINE_BYTES
from pagelens.errors import Failure
from pagelens.measure.choices import cpus_of
from pagelens.measure.pages import PAGE_SIZES

_LOADS = 20_000  # of a stretch
_STRETCHES = 100
_UPDATES, _TIMES = 1 << 20, 5  # of a measurement with independent updates


def chase_ns(footprints: Sequence[int], pages: str, stride: int = LINE_BYTES) -> list[float]:
    """Return the ns of a load through each footprint in bytes, with one line in each `stride` bytes.

    The loads wait for each other. Raises Failure if there is no such memory, or if a chase went wrong.
    """
    cpu = _cpu()
    memory = PAGE_SIZES[pages].map(max(footprints), [cpu], [0])
    found = []
    try:
        for footprint in footprints:
            size = footprint // stride * stride
            done = _probes.latency(memory, size, stride, _LOADS, _STRETCHES, cpu, 1)
            if not done.ok:
                raise Failure("machines detect: a chase went wrong; this machine's memory has a defect")
            found.append(float(1e9 * np.quantile(done.seconds, 0.1) / _LOADS))
    finally:
        memory.release()
    return found


def updates_ns(table: int) -> float:
    """Return the ns of an update of a table of so many bytes, a power of two, on one core.

    The updates are RandomAccess's, on large pages. They do not wait for each other.
    """
    cpu = _cpu()
    memory = PAGE_SIZES["thp"].map(table, [cpu], [0])
    try:
        seconds = [_probes.gups(memory, table, _UPDATES, [cpu]).seconds for _ in range(_TIMES)]
        return 1e9 * min(seconds) / _UPDATES
    finally:
        memory.release()


def _cpu() -> int:
    return cpus_of(None)[0]
