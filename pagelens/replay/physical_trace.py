"""A workload's lines and pages on a policy's frames, as physical addresses that other simulators read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.errors import UsageError
from pagelens.frames import Node, Policy
from pagelens.machine import Machine

WRITE = np.uint64(_core.PHYSICAL_WRITE)  # in a request, beside the address

Requests = NDArray[np.uint64]


def physical_lines(workload: Workload, machine: Machine, policy: Policy, node: Node) -> Iterator[Requests]:
    """Yield in batches what one copy of the program reads and writes below its private caches, in order.

    Addresses are those of the policy's frames on the node. Lines that are written have the bit WRITE. A
    memory-side cache is not simulated. Raises UsageError if memory runs out.
    """
    _, lines = _lines(workload, machine, policy, node)
    yield from _batches(lines, workload, machine)


def page_table(
    workload: Workload, machine: Machine, policy: Policy, node: Node
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return the numbers of the virtual pages of 4 KiB that have a frame, ascending, and their frames.

    Of a page that the program has given back and touched again, it is the last frame. Raises UsageError if
    memory runs out.
    """
    program, lines = _lines(workload, machine, policy, node)
    for _ in _batches(lines, workload, machine):
        pass
    frames = lines.frames()
    placed = frames != _core.NO_FRAME
    return program.pages[placed], frames[placed]


def _lines(
    workload: Workload, machine: Machine, policy: Policy, node: Node
) -> tuple[_core.Program, _core.PhysicalLines]:
    machine = policy.machine(machine)
    program = workload.lines_in_order(machine, policy.offset_bytes)
    return program, _core.PhysicalLines(
        program,
        policy.place(machine, node),
        l2_sets=machine.l2.sets,
        l2_ways=machine.l2.ways.value,
        l2_shared_by=machine.l2.shared_by.value,
    )


def _batches(lines: _core.PhysicalLines, workload: Workload, machine: Machine) -> Iterator[Requests]:
    try:
        while (batch := lines.next()).size:
            yield batch
    except _core.OutOfMemory as error:
        raise UsageError(f"{workload.name} on {machine.name}: {error}") from None
