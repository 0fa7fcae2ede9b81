"""Takes defaults of `pagelens run` from a machine file: the conflict period, and the memory-side cache."""

import os

from pagelens.frames.conflict_period import conflict_period
from pagelens.frames.policies.colouring import conflicting_cache_bytes
from pagelens.machine import Machine
from pagelens.machine.chosen import choose_machine
from pagelens.run.program import tell


def machine_period(name: str | None, page_bytes: int) -> int:
    """Return the bytes after which addresses conflict on the named machine, or on this one.

    If the machine's file cannot be read, says so on stderr and returns 0.
    """
    machine = _machine(name)
    return conflict_period(machine, page_bytes) if machine is not None else 0


def machine_cache(name: str | None) -> int:
    """Return the bytes of the memory-side cache of the named machine, or of this one.

    If there is none, or if the machine's file cannot be read, says so on stderr and returns 0.
    """
    machine = _machine(name)
    if machine is None:
        return 0
    size = conflicting_cache_bytes(machine)
    if size == 0:
        tell(
            f"--frames best: {machine.title} has no memory-side cache that frames conflict in; "
            "--cache SIZE names one"
        )
    return size


def _machine(name: str | None) -> Machine | None:
    if name is not None and name.endswith(".toml") and not os.access(name, os.R_OK):
        tell(f"--machine {name}: cannot be read; the program runs without what it would decide")
        return None
    machine = choose_machine(name).machine
    machine.require_linux_pages("lay out")
    return machine
