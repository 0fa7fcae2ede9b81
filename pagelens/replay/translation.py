"""Counts what translating its addresses costs a program. It is the same wherever its pages lie.

Only the size of the pages matters. A machine with a memory-side cache, whose replay takes a sample of the
slots, therefore has its TLBs replayed separately: once for each page size, on a fresh node, with one copy of
the program that stands for all.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.workload import Workload
from pagelens.address.units import FRAME_BITS, GIGANTIC_PAGE_BITS, HUGE_PAGE_BITS
from pagelens.frames import Node, parse_history, policies
from pagelens.in_thread import in_thread
from pagelens.machine import TRANSLATION_COUNTS, Machine
from pagelens.replay.ordered_lines import InOrder
from pagelens.replay.whole_node import node_model, replay_node

Counts = Mapping[str, NDArray[np.float64]]

# A fresh node has enough pages of each size. Their frames do not matter here.
POLICY_OF_PAGES = {FRAME_BITS: "aged", HUGE_PAGE_BITS: "2m", GIGANTIC_PAGE_BITS: "1g"}


class Translations:
    """The counts of `ranks` copies of a workload on a machine. They are made when they are first used."""

    def __init__(
        self, workload: Workload, machine: Machine, ranks: int, in_order: InOrder | None = None
    ) -> None:
        self._workload, self._machine, self._ranks = workload, machine, ranks
        self._in_order = in_order or InOrder(workload, machine, ranks)
        self._lock = threading.Lock()
        self._made: dict[tuple[int, int], Future[Counts]] = {}  # by log2 of the page size, and offset

    def counts(
        self,
        page_bits: int,
        offset_bytes: int = 0,
        small_share: float = 0.0,
        cancel: _core.CancelFlag | None = None,
    ) -> Counts:
        """Return TRANSLATION_COUNTS, each float64[phase], on pages of 2^page_bits bytes.

        Any thread may call this. If a `small_share` of the large pages was not available, that share of the
        program is assumed to be on small ones. A machine file without TLBs has zeros. Raises _core.Cancelled.
        """
        wanted = self._found(page_bits, offset_bytes, cancel)
        if small_share == 0:
            return wanted
        small = self._found(FRAME_BITS, offset_bytes, cancel)
        return {name: (1 - small_share) * wanted[name] + small_share * small[name] for name in wanted}

    def _found(self, page_bits: int, offset_bytes: int, cancel: _core.CancelFlag | None) -> Counts:
        while True:
            try:
                return self.begin(page_bits, offset_bytes, cancel).result()
            except _core.Cancelled:
                # The count may be that of another run, which alone was to stop.
                if cancel:
                    raise

    def begin(
        self, page_bits: int, offset_bytes: int = 0, cancel: _core.CancelFlag | None = None
    ) -> Future[Counts]:
        """Let a thread of its own count, unless one does or did so, and return what it will find.

        Replays of placements need these counts last, so they can go on meanwhile.
        """
        key = (page_bits, offset_bytes)
        with self._lock:
            made = self._made.get(key)
            if made is None or (made.done() and made.exception() is not None):
                made = self._made[key] = in_thread(self._replayed, page_bits, offset_bytes, cancel)
            return made

    def _replayed(self, page_bits: int, offset_bytes: int, cancel: _core.CancelFlag | None) -> Counts:
        if self._machine.page_walk is None:
            return dict.fromkeys(TRANSLATION_COUNTS, np.zeros(len(self._workload.phases)))
        fresh = Node(self._machine, 0, 0, history=parse_history("boot; run"))
        found = replay_node(
            self._in_order.at(offset_bytes, cancel).translation.result(),
            policies[POLICY_OF_PAGES[page_bits]].place(self._machine, fresh),
            node_model(self._machine, rows=()),
            ranks=1,
            caching=False,  # no cache decides what a TLB misses
            cancel=cancel.piece() if cancel is not None else None,
        )
        return {name: self._ranks * found.counts[name] for name in TRANSLATION_COUNTS}
