"""Compares one program on a real kernel with its model, over node states, page sizes and sizes of the cache.

Each variant and each size of cache is a guest of its own, which goes through the states one after the other.
A variant is a kernel's command line, a page size, or pages that something else holds. The model takes over
the guest's state once, after boot, and then does the same steps.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import Failure, UsageError
from pagelens.lab.allocator_state import take_picture
from pagelens.lab.jobs import run_work
from pagelens.lab.measured import Frames
from pagelens.lab.model_node import ModelNode
from pagelens.lab.run import ProgramLab, ProgramRun, Request
from pagelens.machine.memories import MOST_TAGS

RATIOS = (0.25, 0.5, 1.0, 1.1)  # footprint over cache
QUICK_RATIOS = (1.0,)

FRESH, AGED, COMPACTED, INTEL, OURS = STATES = (
    "fresh",
    "aged",
    "... caches dropped, compacted",
    "... and Intel's rule",
    "... and zonesort",
)

_PROLOGUE = "drop_caches; compact"
_CACHE_UNIT = 4 << 20  # a cache is of whole blocks of the largest order
_GIGANTIC = 1 << 30


@dataclass(frozen=True)
class Variant:
    """How a guest differs from one with 4 KiB pages and an unchanged kernel."""

    key: str
    name: str
    first: str = ""  # steps before all others
    pages: str = "4KiB"

    def history(self, jobs: int) -> str:
        """Return a history that runs the program in each of STATES."""
        steps = (
            *((self.first,) if self.first else ()),
            *("run", f"age(jobs={jobs})", "run", _PROLOGUE, "run"),
            *(_PROLOGUE, "zonesort(intel)", "run", _PROLOGUE, "zonesort", "run"),
        )
        return "; ".join(steps)


VARIANTS = (
    Variant("4k", "4 KiB pages"),
    Variant("held", "4 KiB pages, 0.1% of memory held", first="hold(0.1%)"),
    Variant("shuffle", "4 KiB pages, page_alloc.shuffle=1", first="boot(shuffle=on)"),
    Variant("2m", "2 MiB pages", pages="2MiB"),
    Variant("1g", "1 GiB pages", pages="1GiB"),
)


@dataclass(frozen=True)
class Row:
    """One state of one guest."""

    variant: Variant
    ratio: float  # the requested ratio; the cache is the nearest multiple of 4 MiB
    cache_bytes: int
    state: str
    run: ProgramRun  # the run on the kernel
    model_share: float

    @property
    def kernel_share(self) -> float:
        """The share of resident pages in conflict, on the kernel."""
        return self.run.conflict_share


@dataclass(frozen=True)
class Comparison:
    """All rows, by variant, ratio and state."""

    request: Request
    jobs: int  # the jobs that aged a node
    release: str  # the kernel's release
    footprint_bytes: int
    rows: list[Row]

    def verdicts(self) -> Iterator[tuple[Row, Row]]:
        """Yield for each variant and ratio the row of Intel's rule and the row of ours."""
        by_place = {(row.variant.key, row.ratio, row.state): row for row in self.rows}
        for (variant, ratio, state), row in by_place.items():
            if state == INTEL:
                yield row, by_place[variant, ratio, OURS]


def compare_states(
    request: Request,
    ratios: Sequence[float],
    jobs: int,
    report: Callable[[Row], None],
    variants: Sequence[Variant] = VARIANTS,
    workers: int | None = None,
) -> Comparison:
    """Run the program of `request` everywhere.

    The request's own history, pages and cache do not count.
    """
    footprint = _footprint(request)
    cells = [
        (variant, ratio, _cell(request, variant, ratio, footprint, jobs))
        for variant in variants
        for ratio in ratios
    ]
    guests = Guests()
    with ThreadPoolExecutor(workers or len(os.sched_getaffinity(0))) as pool:
        rows = [pool.submit(_rows, *cell, guests, report) for cell in cells]
        try:
            for first in wait(rows, return_when=FIRST_EXCEPTION).done:
                first.result()
        except BaseException:
            guests.end()
            pool.shutdown(cancel_futures=True)
            raise
    return Comparison(request, jobs, guests.release, footprint, [row for of in rows for row in of.result()])


class Guests:
    """The guests of several threads. Any thread can end them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._labs: list[ProgramLab] = []
        self._ended = False
        self.release = ""

    def enter(self, lab: ProgramLab) -> None:
        """Register a guest before it starts. Raises Failure if the guests were ended."""
        with self._lock:
            if self._ended:
                raise Failure("compare: ended")
            self._labs.append(lab)
            self.release = lab.guest.kernel.release

    def end(self) -> None:
        """End all guests, and keep others from starting."""
        with self._lock:
            self._ended = True
            for lab in self._labs:
                lab.guest.kill()


def _rows(
    variant: Variant, ratio: float, request: Request, guests: Guests, report: Callable[[Row], None]
) -> list[Row]:
    rows: list[Row] = []
    lab = ProgramLab(request, pictured=True)
    guests.enter(lab)
    memory_side = lab.guest.memory_side
    with lab:
        model = ModelNode(take_picture(lab.guest).model(), memory_side.slots)
        if lab.schedule.boot.shuffle:
            model.memory.shuffle_on_free(_core.Random(request.seed, 0, 0, _core.Stream.history))
        states = iter(STATES)
        for step in lab.schedule.steps:
            run = lab.step(step).run
            if run is None:
                step.act(model)
                continue
            _require_success(run, request)
            _require_large_pages(run, request)
            frames = _model_run(model, run, request.pages)
            share = memory_side.conflicts(frames) / frames.size
            rows.append(Row(variant, ratio, request.cache_bytes, next(states), run, share))
            report(rows[-1])
    return rows


def _model_run(model: ModelNode, run: ProgramRun, pages: str) -> Frames:
    """Return the frames of a program that takes as many pages as the one in the guest, by address."""
    if pages == "2MiB":
        return model.run_on_huge_pages(run.huge_parts)
    if pages == "1GiB":  # set aside at boot
        return np.arange(run.resident_pages, dtype=np.int64)
    return model.work("run", run_work(run.resident_pages * FRAME_BYTES).steps)


def _footprint(request: Request) -> int:
    """Return the bytes that the program uses when it uses most, from a run in a guest of its own.

    That run uses 2 MiB pages, so a program that cannot have them is refused before anything is compared.
    """
    cache = request.memory_bytes // 4 // _CACHE_UNIT * _CACHE_UNIT  # any will do
    request = replace(request, history="run", pages="2MiB", cache_bytes=cache)
    with ProgramLab(request) as lab:
        run = lab.step(lab.schedule.steps[0]).run
    assert run is not None
    _require_success(run, request)
    _require_large_pages(run, request)
    return run.resident_pages * FRAME_BYTES


def _cell(request: Request, variant: Variant, ratio: float, footprint: int, jobs: int) -> Request:
    """Return the request for one guest. With pages of 1 GiB it has that much more memory."""
    pool = -(-footprint // _GIGANTIC) * _GIGANTIC if variant.pages == "1GiB" else 0
    # The kernel is in the first GiB, and needs the end of the last one while it boots.
    memory = request.memory_bytes if pool == 0 else max(request.memory_bytes, _GIGANTIC * 3 // 2) + pool
    cache = max(1, round(footprint / ratio / _CACHE_UNIT)) * _CACHE_UNIT
    if cache <= memory // MOST_TAGS:
        least = int(ratio * memory / MOST_TAGS) + _CACHE_UNIT >> 20
        raise UsageError(
            f"{request.command[0]}: it takes {footprint >> 20} MiB; with --memory "
            f"{request.memory_bytes >> 20}MiB and --ratio {ratio:g} it has to take {least} MiB or more"
        )
    return replace(
        request,
        memory_bytes=memory,
        cache_bytes=cache,
        history=variant.history(jobs),
        pages=variant.pages,
        pool_bytes=pool,
    )


def _require_large_pages(run: ProgramRun, request: Request) -> None:
    """Raise Failure if the program got few large pages. Otherwise nothing would show what large pages do."""
    if request.pages != "4KiB" and 2 * sum(run.huge_parts) < run.resident_pages:
        raise Failure(
            f"{request.command[0]} took {sum(run.huge_parts) or 'none'} of its {run.resident_pages} pages of "
            f"memory from pages of {request.pages} (static arrays?); its arrays have to come from malloc"
        )


def _require_success(run: ProgramRun, request: Request) -> None:
    if run.status != 0:
        last = (run.output.strip().splitlines() or ["it printed nothing"])[-1]
        raise Failure(f"{request.command[0]} ended with status {run.status} in the guest: {last}")
    if run.resident_pages == 0:
        raise Failure(f"{request.command[0]} held no memory in the guest; name a program that does")
