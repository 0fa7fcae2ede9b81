"""What a program does to memory, from whichever source: the interface that ensembles and explanations use."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pagelens._core import Padding, Program
from pagelens.accesses.instructions import SampledCode
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.schema import Machine
from pagelens.units import format_binary_size

ALL_SETS = (1 << 64) - 1
KERNEL = 0  # the object that pages are cleared for, where nothing else is known


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
    # Where a plan finds it (docs/plan-format.md): the call site's return addresses, innermost first, as
    # `app!main+0x1c`, or the variable. Neither: a program's stack, what it maps itself, its modules.
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
    """Which lines a timeline's program keeps, and what there are of all (core/accesses/compile.hpp).

    Counts are of lines that came past the tracer's filter, as most of those that leave an L1 do.
    """

    sets: int  # bit i: the lines at place i of their pages
    seen: NDArray[np.float64]  # [interval, object]
    kept: NDArray[np.float64]  # [interval, object] of these
    touched: NDArray[np.float64]  # [interval] that ops touch, for TLBs: a stretch of all that are seen
    threads: NDArray[np.uint32]  # [object] that use it

    @property
    def of_intervals(self) -> NDArray[np.float64]:
        """[interval] how many times as many lines there are as kept ones."""
        return ratio(self.seen.sum(axis=1), self.kept.sum(axis=1))

    @property
    def of_objects(self) -> NDArray[np.float64]:
        """[object] the same."""
        return ratio(self.seen.sum(axis=0), self.kept.sum(axis=0))

    @property
    def of_both(self) -> NDArray[np.float64]:
        """[interval, object] the same, or the object's where the interval has kept none of its lines."""
        return np.asarray(np.where(self.kept > 0, ratio(self.seen, self.kept), self.of_objects))


def ratio(all_: NDArray[np.float64], part: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of all to a part of them; where there is no part, that of the sums."""
    whole = all_.sum() / max(1.0, part.sum())
    return np.asarray(np.divide(all_, part, out=np.full(all_.shape, whole), where=part > 0))


@dataclass(frozen=True, slots=True)
class Timeline:
    """A program cut into intervals of its run, and what is live in its course."""

    program: Program  # whose phases are the intervals
    interval_phases: list[str]  # the phase that each interval lies in
    live_bytes: NDArray[np.float64]  # [moment, object] the most at a time within a moment
    sample: SampledLines | None = None  # None: the program has every line


@dataclass(frozen=True, slots=True)
class Cut:
    """What `Workload.timeline` is asked for."""

    machine: Machine
    intervals: int  # about
    sets: int = ALL_SETS  # of the lines of a trace, those at place i of their pages where bit i is set


@dataclass(frozen=True)
class FirstProgram:
    """What will first be asked of a workload: `compile` for frames of 4 KiB, or `lines_in_order`."""

    machine: Machine
    in_order: bool


class Workload(ABC):
    """A program to be placed and replayed; `compile` turns it into ops for a machine and page size."""

    name: str
    source: Literal["trace", "declared"]
    digest: str  # of all that decides what `compile` returns: equal digests, equal results
    objects: list[ObjectInfo]
    large_blocks: list[int]  # first pages of the blocks of 1 MiB and more, by address
    phases: list[str]  # phase 0 is what lies outside of every marked region
    measured_phase: str | None = (
        None  # whose time the program's figure is, as a benchmark states; None: the whole run
    )
    threads: int
    footprint_bytes: int  # peak resident, of one rank
    share_seen: float | None  # of the program's instructions; None where it is not known
    shared_bytes: int = 0  # of files that it reads through mappings; all ranks share them
    share_of_zero_page: float = 0.0  # of the lines fetched: of anonymous memory never written until then
    warnings: list[str]
    samples: SampledCode | None = None  # what a traced program executes, now and then
    has_samples: bool = False  # whether there are any, without decoding them

    def __init__(self) -> None:
        self._programs: dict[tuple[tuple[PrivateCache, ...], int], Program] = {}
        self._lock = threading.Lock()

    def job_bytes(self, ranks: int) -> int:
        """Memory that so many ranks need: a footprint each, and once the files that they read."""
        return self.footprint_bytes * ranks + self.shared_bytes

    def compile(self, machine: Machine, page_bits: int, offset_bytes: int = 0) -> Program:
        """The ops below the private caches whose index bits lie under `page_bits`; made once each.

        With an offset every large block lies so much further from the one before it, the i-th by i times as
        much (STREAM's OFFSET). Raises UsageError where `check_offset` does.
        """
        caches = machine.caches_below(page_bits)
        self.check_offset(machine, offset_bytes)
        with self._lock:
            if (caches, offset_bytes) not in self._programs:
                self._programs[caches, offset_bytes] = self._compile(
                    machine, caches, page_bits, False, self._padding(offset_bytes)
                )
            return self._programs[caches, offset_bytes]

    def check_offset(self, machine: Machine, offset_bytes: int) -> None:
        """Raises UsageError where no blocks can be moved apart, or the counts would not be exact."""
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
        """Bytes by which blocks can move and every count stays exact."""
        return FRAME_BYTES

    def lines_in_order(self, machine: Machine, offset_bytes: int = 0) -> Program:
        """Every line below the L1 alone in its order; virtual addresses index that whatever the pages' size.

        Made anew at each call, since it is large. An offset is as in `compile`.
        """
        self.check_offset(machine, offset_bytes)
        page_bits = machine.l1.highest_index_bit + 1  # a frame's at least: 64 sets and more
        return self._compile(machine, (machine.l1,), page_bits, True, self._padding(offset_bytes))

    @abstractmethod
    def timeline(self, cut: Cut) -> Timeline:
        """The run in its course: about so many intervals, fewer or more where loops are declared.

        Its program is as `compile` gives it for pages of 4 KiB, with the intervals as phases. Of a trace it
        has the lines in `cut.sets` alone; declared loops have all.
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
        padding: Padding,
    ) -> Program:
        """The ops below `caches`; the same for every `page_bits` that they fit.

        in_order: all lines in their order, instead of those of each cache set (core/accesses/page_runs.hpp).
        """
