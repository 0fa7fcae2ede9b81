"""The interface of all workloads: what a program does to memory, whatever its source."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens._core import Padding, Program
from pagelens.accesses.first_writers import FirstWriters
from pagelens.accesses.sampled_code import SampledCode
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.rank_load import RankLoad
from pagelens.machine.schema import Machine
from pagelens.units import format_binary_size

ALL_SETS = (1 << 64) - 1
KERNEL = 0  # the object that pages are cleared for, where nothing else is known


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The memory that one call site allocates, or a region without a call site."""

    index: int  # its index in the program's counters; 0 is the kernel's page clearing
    name: str
    frames: tuple[str, ...] = ()  # the call site's callers, innermost first
    bytes: int = 0  # peak: of live blocks, of resident pages where there are no blocks
    lines: int = 0  # fetched by this program past the filter; 0 if it is declared
    stored: int = 0  # lines made dirty
    births: int = 0  # blocks allocated
    ranks: int = 1  # the processes of a job that have it; its bytes are their mean
    # How a plan finds the object (docs/plan-format.md): the return addresses of the call site, innermost
    # first, as `app!main+0x1c`, or the variable. A program's stack, its modules and its own mappings have
    # neither.
    site: tuple[str, ...] = ()
    other_sites: tuple[tuple[str, ...], ...] = ()  # likewise, where several sites are one object
    variable: str = ""
    declared: bool = False  # an array of declared loops

    @property
    def placeable(self) -> bool:
        """Whether it can be given a memory of its own."""
        return bool(self.site or self.variable or self.declared)


@dataclass(frozen=True, slots=True)
class SampledLines:
    """The lines that a timeline's program keeps, out of all (core/accesses/compile.hpp).

    The counts are of lines that passed the tracer's filter, as most lines that leave an L1 do.
    """

    sets: int  # bit i: the lines at place i of their pages
    seen: NDArray[np.float64]  # [interval, object]
    kept: NDArray[np.float64]  # [interval, object] of these
    touched: NDArray[np.float64]  # [interval] that ops touch, for TLBs: a stretch of all that are seen
    threads: NDArray[np.uint32]  # [object] that use it

    @property
    def of_intervals(self) -> NDArray[np.float64]:
        """The lines in each [interval], as a multiple of the kept ones."""
        return ratio(self.seen.sum(axis=1), self.kept.sum(axis=1))

    @property
    def of_objects(self) -> NDArray[np.float64]:
        """The lines of each [object], as a multiple of the kept ones."""
        return ratio(self.seen.sum(axis=0), self.kept.sum(axis=0))

    @property
    def of_both(self) -> NDArray[np.float64]:
        """The same for [interval, object], or of the object if the interval kept none of its lines."""
        return np.asarray(np.where(self.kept > 0, ratio(self.seen, self.kept), self.of_objects))


def ratio(all_: NDArray[np.float64], part: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return all over a part, elementwise. Where the part is 0, return the ratio of the sums."""
    whole = all_.sum() / max(1.0, part.sum())
    return np.asarray(np.divide(all_, part, out=np.full(all_.shape, whole), where=part > 0))


@dataclass(frozen=True, slots=True)
class Timeline:
    """A program cut into intervals of its run, and the bytes that are live in the course of it."""

    program: Program  # its phases are the intervals
    interval_phases: list[str]  # the phase that each interval lies in
    live_bytes: NDArray[np.float64]  # [moment, object] the most at a time within a moment
    sample: SampledLines | None = None  # None if the program has every line


@dataclass(frozen=True, slots=True)
class Cut:
    """The request for a timeline."""

    machine: Machine
    intervals: int  # about
    sets: int = ALL_SETS  # bit i is set for lines of a trace at place i of their pages


@dataclass(frozen=True)
class FirstProgram:
    """The first request to a workload: `compile` for frames of 4 KiB, or `lines_in_order`."""

    machine: Machine
    in_order: bool


class Workload(ABC):
    """A program to be placed and replayed. `compile` turns it into ops for a machine and page size."""

    name: str
    source: Literal["trace", "declared"]
    digest: str  # a digest of all that decides what `compile` returns
    objects: list[ObjectInfo]
    large_blocks: list[int]  # first pages of the blocks of 1 MiB and more, by address
    phases: list[str]  # phase 0 is what lies outside of every marked region
    measured_phase: str | None = (
        None  # whose time the program's figure is, as a benchmark states; None: the whole run
    )
    processes: int = 1  # of a job whose ranks differ; one copy of the workload has all of them
    threads: int  # of all processes
    footprint_bytes: int  # peak resident, of all processes of one copy
    share_seen: float | None  # the share of the program's instructions; None where it is not known
    cut_by: str = ""  # why a trace has only this share: sentences; empty if all of it was traced or declared
    shared_bytes: int = 0  # the bytes of files that it reads through mappings, which all ranks share
    # The share of fetched lines whose anonymous memory was never written before.
    share_of_zero_page: float = 0.0
    warnings: list[str]
    samples: SampledCode | None = None  # samples of what a traced program executes
    has_samples: bool = False  # whether there are any, without decoding them
    first_writers: FirstWriters = MappingProxyType({})  # as far as it is known
    instruction_set: str | None = None  # of the traced instructions; None: none, or it is not known
    rank_load: RankLoad | None = None  # how unevenly ranks, or threads, are busy; None: all are alike

    def __init__(self) -> None:
        self._programs: dict[tuple[tuple[PrivateCache, ...], int], Program] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name}: {format_binary_size(self.footprint_bytes)}>"

    def job_bytes(self, ranks: int) -> int:
        """Return the memory that so many ranks need: a footprint each, and the files that they read once."""
        return self.footprint_bytes * ranks + self.shared_bytes

    def compile(
        self,
        machine: Machine,
        page_bits: int,
        offset_bytes: int = 0,
        cancel: _core.CancelFlag | None = None,
    ) -> Program:
        """Return the ops below the private caches whose index bits lie under `page_bits`.

        Each program is made once. With an offset, every large block lies that much further from the one
        before it, the i-th block by i times as much (STREAM's OFFSET). Raises UsageError where `check_offset`
        does, and _core.Cancelled if it was cancelled.
        """
        caches = machine.caches_below(page_bits)
        self.check_offset(machine, offset_bytes)
        with self._lock:
            if (caches, offset_bytes) not in self._programs:
                self._programs[caches, offset_bytes] = self._compile(
                    machine, caches, page_bits, False, offset_bytes, cancel
                )
            return self._programs[caches, offset_bytes]

    def check_offset(self, machine: Machine, offset_bytes: int) -> None:
        """Raise UsageError if no blocks can be moved apart, or if the counts would not be exact."""
        if not offset_bytes:
            return
        if len(self.large_blocks) < 2:
            raise UsageError(
                f"{self.name} has {len(self.large_blocks)} blocks of 1 MiB or more, and an offset moves at "
                "least two apart; leave it out"
            )
        if offset_bytes % (unit := self._offset_unit(machine)):
            raise UsageError(
                f"an offset must be a multiple of {format_binary_size(unit)} on {machine.name}, not "
                f"{format_binary_size(offset_bytes)}: the trace's lines are those past an L1 of so much a way"
            )

    def _offset_unit(self, machine: Machine) -> int:
        """Return the bytes by which blocks can move while every count stays exact."""
        return FRAME_BYTES

    def lines_in_order(
        self, machine: Machine, offset_bytes: int = 0, cancel: _core.CancelFlag | None = None
    ) -> Program:
        """Return every line below the L1 as an op of its own, in order.

        The L1 is indexed by virtual addresses, so the result holds for every page size. It is made anew at
        each call, since it is large. The offset is that of `compile`, and so is `cancel`.
        """
        self.check_offset(machine, offset_bytes)
        page_bits = machine.l1.highest_index_bit + 1  # a frame's at least: 64 sets and more
        return self._compile(machine, (machine.l1,), page_bits, True, offset_bytes, cancel)

    @abstractmethod
    def timeline(self, cut: Cut) -> Timeline:
        """Return the course of the run, in about `cut.intervals` intervals.

        Declared loops may have fewer or more. Its program is the one of `compile` for pages of 4 KiB, with
        the intervals as phases. The program of a trace has only the lines in `cut.sets`; declared loops have
        all lines.
        """

    def _padding(self, offset_bytes: int) -> Padding:
        return Padding(self.large_blocks[1:] if offset_bytes else [], offset_bytes // FRAME_BYTES)

    @abstractmethod
    def _compile(
        self,
        machine: Machine,
        caches: tuple[PrivateCache, ...],
        page_bits: int,
        in_order: bool,
        offset_bytes: int,
        cancel: _core.CancelFlag | None,
    ) -> Program:
        """Return the ops below `caches`. They are the same for every `page_bits` that the caches allow.

        With `in_order`, all lines keep their order, instead of only those of each cache set
        (core/accesses/page_runs.hpp).
        """
