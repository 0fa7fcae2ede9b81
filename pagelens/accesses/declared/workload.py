"""Makes a workload of declared loops."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, groupby

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.declared.loops import Loops, Stream, Sweep
from pagelens.accesses.workload import Cut, ObjectInfo, Timeline, Workload
from pagelens.address.units import FRAME_BITS, FRAME_BYTES
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.schema import Machine


class DeclaredWorkload(Workload):
    """Declared loops as a workload. Each placement replays their private caches, with any page size."""

    def __init__(self, name: str, loops: Loops, threads: int) -> None:
        super().__init__()
        self.name, self.source, self.threads = name, "declared", threads
        self.digest = hashlib.sha256(repr((name, loops, threads)).encode()).hexdigest()
        self.share_seen, self.warnings = None, []
        self.phases = list(dict.fromkeys(sweep.phase for sweep in loops.sweeps))
        self.measured_phase: str = self.phases[-1]
        pages = [max(threads, round(array.bytes / FRAME_BYTES)) for array in loops.arrays]
        self.footprint_bytes = sum(pages) * FRAME_BYTES
        self.objects = [ObjectInfo(0, "[kernel: page clearing]")] + [
            ObjectInfo(index, array.name, bytes=count * FRAME_BYTES, declared=True)
            for index, (array, count) in enumerate(zip(loops.arrays, pages, strict=True), start=1)
        ]
        ends = accumulate(pages)
        least = _core.large_block_bytes // FRAME_BYTES
        self.large_blocks = [end - count for end, count in zip(ends, pages, strict=True) if count >= least]
        self._loops, self._pages = loops, pages

    def timeline(self, cut: Cut) -> Timeline:
        """Return a timeline in which each run of a loop is one interval and one moment."""
        run = [
            sweep
            for phase, loops in groupby(self._loops.sweeps, key=lambda sweep: sweep.phase)
            for sweep in [*loops] * self._loops.repeats.get(phase, 1)
        ]
        alone = tuple(replace(sweep, phase=f"{sweep.phase} {number}") for number, sweep in enumerate(run))
        by_loop = DeclaredWorkload(self.name, Loops(self._loops.arrays, alone), self.threads)
        return Timeline(
            by_loop.compile(cut.machine, FRAME_BITS), [sweep.phase for sweep in run], self._live_bytes(run)
        )

    def _live_bytes(self, run: Sequence[Sweep]) -> NDArray[np.float64]:
        """Return the live bytes of [loop, object], from the first loop that touches it to its unmapping."""
        index = {array.name: number for number, array in enumerate(self._loops.arrays, start=1)}
        size = np.array([known.bytes for known in self.objects], dtype=np.float64)
        live = np.zeros((len(run), len(size)))
        now: set[int] = set()
        for number, sweep in enumerate(run):
            now |= {index[stream.array] for stream in sweep.streams}
            live[number, sorted(now)] = size[sorted(now)]
            now -= {index[name] for name in sweep.unmaps}
        return live

    def _compile(
        self,
        machine: Machine,
        caches: tuple[PrivateCache, ...],
        page_bits: int,
        in_order: bool,
        offset_bytes: int,
        cancel: _core.CancelFlag | None,
    ) -> _core.Program:
        index = {array.name: position for position, array in enumerate(self._loops.arrays)}

        def stream(s: Stream) -> tuple[int, _core.StreamKind, int, int, float, _core.Walk]:
            pages = 0 if s.bytes is None else max(1, round(s.bytes / FRAME_BYTES))
            return index[s.array], s.kind, round(s.shift_bytes / FRAME_BYTES), pages, s.stride, s.walk

        def sweep(s: Sweep) -> _CoreSweep:
            given_back = [index[name] for name in s.unmaps]
            streams = [stream(one) for one in s.streams]
            return self.phases.index(s.phase), s.first_touch, s.instructions_per_line, streams, given_back

        sweeps = [sweep(s) for s in self._loops.sweeps]
        repeats = [self._loops.repeats.get(phase, 1) for phase in self.phases]
        return _core.declare_sweeps(
            self._pages, sweeps, repeats, self.threads, in_order, self._padding(offset_bytes)
        )


_CoreSweep = tuple[
    int, bool, float, list[tuple[int, _core.StreamKind, int, int, float, _core.Walk]], list[int]
]
