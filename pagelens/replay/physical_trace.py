"""Writes a workload's lines on a policy's frames as physical addresses, for other DRAM models too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.errors import UsageError
from pagelens.frames import Node, Policy
from pagelens.machine import Machine

WRITE = np.uint64(_core.PHYSICAL_WRITE)  # in a request, beside the address
_LINES_AT_A_TIME = 1 << 16  # of text

Requests = NDArray[np.uint64]


def physical_lines(workload: Workload, machine: Machine, policy: Policy, node: Node) -> Iterator[Requests]:
    """Yield in batches what one copy of the program reads and writes below its private caches, in order.

    Addresses are those of the policy's frames on the node. Lines that are written have the bit WRITE. A
    memory-side cache is not simulated. Raises UsageError if memory runs out.
    """
    machine = policy.machine(machine)
    lines = _core.PhysicalLines(
        workload.lines_in_order(machine, policy.offset_bytes),
        policy.place(machine, node),
        l2_sets=machine.l2.sets,
        l2_ways=machine.l2.ways.value,
        l2_shared_by=machine.l2.shared_by.value,
    )
    try:
        while (batch := lines.next()).size:
            yield batch
    except _core.OutOfMemory as error:
        raise UsageError(f"{workload.name} on {machine.name}: {error}") from None


def _dramsim3(address: int, write: int) -> str:
    """Return a line for DRAMsim3's trace-driven CPU: address, operation and the earliest cycle.

    Cycle 0 means as soon as there is room.
    """
    return f"{address:#x} {'WRITE' if write else 'READ'} 0\n"


def _ramulator(address: int, write: int) -> str:
    """Return a line for Ramulator's front end LoadStoreTrace, which reads an operation and an address."""
    return f"{'ST' if write else 'LD'} {address:#x}\n"


FORMATS: Mapping[str, Callable[[int, int], str]] = {"dramsim3": _dramsim3, "ramulator": _ramulator}


def write_text(batches: Iterator[Requests], line: Callable[[int, int], str], limit: int, file: TextIO) -> int:
    """Write at most `limit` requests as lines of text (0 means all). Return their number."""
    written = 0
    for batch in batches:
        for begin in range(0, len(batch), _LINES_AT_A_TIME):
            part = batch[begin : begin + _LINES_AT_A_TIME]
            part = part[: limit - written] if limit else part
            addresses, writes = (part & ~WRITE).tolist(), (part >> np.uint64(63)).tolist()
            file.write("".join(map(line, addresses, writes)))
            written += len(part)
            if limit and written == limit:
                return written
    return written
