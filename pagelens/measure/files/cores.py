"""Finds the processor that takes the storage's interrupts, and keeps a thread on a processor.

Where a device has one queue, one processor takes all its interrupts. A thread that waits on another one takes
longer for each operation, because it is woken across processors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pagelens.host.system import System

MOSTLY = 0.5  # interrupts an operation: more than this come from it
_HEADER = "CPU"


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Keep the calling thread on one processor. None leaves it where it is."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def find_interrupt_core(work: Callable[[], int], system: System | None = None) -> int | None:
    """Return the processor that takes the interrupts of some work, on whichever processor the work is done.

    `work()` does it, and returns the number of its operations. Return None if the interrupts go where the
    work is done, or nowhere.
    """
    system = system or System()
    for core in sorted(os.sched_getaffinity(0))[:2]:
        with on_core(core):
            before = device_interrupts(system)
            operations = work()
            after = device_interrupts(system)
        more = {cpu: count - before.get(cpu, 0) for cpu, count in after.items()}
        most = max(more, key=lambda cpu: more[cpu], default=None)
        if most is None or more[most] < MOSTLY * operations:
            return None
        if most != core:
            return most
    return None


def device_interrupts(system: System) -> dict[int, int]:
    """Return how many interrupts of devices each processor has taken (/proc/interrupts)."""
    lines = system.text("/proc/interrupts").splitlines()
    names = lines[0].split() if lines else []
    cpus = [int(name.removeprefix(_HEADER)) for name in names if name.removeprefix(_HEADER).isdecimal()]
    found = dict.fromkeys(cpus, 0)
    for line in lines[1:]:
        number, _, rest = line.partition(":")
        if number.strip().isdecimal():  # other lines are timers and calls between processors
            for cpu, count in zip(cpus, rest.split(), strict=False):
                found[cpu] += int(count) if count.isdecimal() else 0
    return found
