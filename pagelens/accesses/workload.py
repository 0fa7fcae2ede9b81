"""What a program does to memory, from whichever source: the interface that ensembles and explanations use."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from pagelens._core import Program
from pagelens.machine.schema import Machine, PrivateCache


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The memory that one call site allocates, or a region without one."""

    index: int  # in the program's counters; 0 is the kernel's page clearing
    name: str
    frames: tuple[str, ...] = ()  # the call site's callers, innermost first
    bytes: int = 0  # peak: of live blocks, of resident pages where there are no blocks
    lines: int = 0  # fetched by this program past the filter; 0 if it is declared
    stored: int = 0  # lines made dirty
    births: int = 0  # blocks allocated


class Workload(ABC):
    """A program to be placed and replayed; `compile` turns it into ops for a machine and page size."""

    name: str
    source: Literal["trace", "declared"]
    digest: str  # of all that decides what `compile` returns: equal digests, equal results
    objects: list[ObjectInfo]
    phases: list[str]  # phase 0 is what lies outside of every marked region
    measured_phase: str | None = (
        None  # whose time the program's figure is, as a benchmark states; None: the whole run
    )
    threads: int
    footprint_bytes: int  # peak resident, of one rank
    share_seen: float | None  # of the program's instructions; None where it is not known
    warnings: list[str]

    def __init__(self) -> None:
        self._programs: dict[tuple[PrivateCache, ...], Program] = {}
        self._lock = threading.Lock()

    def compile(self, machine: Machine, page_bits: int) -> Program:
        """The ops below the private caches whose index bits lie under `page_bits`; made once each."""
        caches = machine.caches_below(page_bits)
        with self._lock:
            if caches not in self._programs:
                self._programs[caches] = self._compile(machine, caches, page_bits)
            return self._programs[caches]

    @abstractmethod
    def _compile(self, machine: Machine, caches: tuple[PrivateCache, ...], page_bits: int) -> Program:
        """The ops below `caches`; the same for every `page_bits` that they fit."""
