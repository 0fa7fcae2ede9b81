"""Finds machines by name, by file, or the one that pagelens runs on."""

import os

from pagelens.machine import Machine, choose_machine, list_machines


def machine(name_or_path: str | os.PathLike[str] | None = None) -> Machine:
    """Return the machine of a name or of a TOML file; without either, the machine that this runs on.

    `m.with_ways(2)` is the same machine with a two-way memory-side cache, and `NAME-ideal` is a cache-mode
    machine with a fully associative one. Sizes are in bytes, bandwidths in bytes a second, latencies in
    seconds. Printing a machine draws it.

    Raises UsageError for an unknown name or a faulty file.

    >>> knl = machine("cori-knl-cache")
    >>> knl.cores.count.value, knl.with_ways(2).ways
    (68, 2)
    """
    return choose_machine(None if name_or_path is None else os.fspath(name_or_path)).machine


def machines() -> list[str]:
    """Return the names of the machines that come with pagelens, in alphabetical order.

    >>> "cori-knl-cache" in machines()
    True
    """
    return list(list_machines())
