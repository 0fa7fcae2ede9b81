"""The test of snoop filters: every core holds 125,000 doubles of its own at the same time.

Static, from addresses alone; and the same lines read over and over by simulated caches.

The amount is that of github.com/jdmccalpin/SKX-SF-Conflicts, the public test to J. D. McCalpin, HPL and DGEMM
performance variability on Intel Xeon Platinum 8160 processors, SC18.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.pages import Pages
from pagelens.address.units import LINE_BYTES
from pagelens.conflicts.predict import excess_shares
from pagelens.conflicts.socket import Socket
from pagelens.conflicts.windows import Held, Windows
from pagelens.machine import Machine
from pagelens.machine.caches import count
from pagelens.replay.whole_node import caches_below_l1

HELD_BYTES = 1_000_000  # of each L2: 125,000 doubles
POOL_BYTES = 96 << 30  # that random pages are drawn from: the memory of a socket
LARGE_BYTES = 2 << 20
GIB = 1 << 30
WARM_UP, SWEEPS = 2, 5

Packing = Literal["packed", "own"]


def contiguous(socket: Socket, wrapping: bool = False) -> NDArray[np.float64]:
    """Shares beyond the snoop filter's ways of one buffer at every 2 MiB of a GiB.

    Where the buffer fits into it; `wrapping`: also where it goes on at its beginning.
    """
    held = socket.l2s * (HELD_BYTES // LINE_BYTES)
    step, gib = LARGE_BYTES // LINE_BYTES, GIB // LINE_BYTES
    counts = socket.shared[0].counts()
    counts.add(*_runs(0, held))
    shares = [counts.excess / held]
    for start in range(step, gib if wrapping else gib - held + 1, step):
        counts.remove(*_runs(start - step, step))  # what the buffer leaves as it moves, and what it comes to
        counts.add(*_runs(start - step + held, step))
        shares.append(counts.excess / held)
    return np.array(shares)


def _runs(start: int, lines: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Addresses and lengths of the lines from `start` on, around a GiB."""
    gib = GIB // LINE_BYTES
    before_end = min(lines, gib - start % gib)
    runs = [(start % gib, before_end), (0, lines - before_end)]
    return (
        np.array([first * LINE_BYTES for first, length in runs if length], dtype=np.uint64),
        np.array([length for _, length in runs if length], dtype=np.uint32),
    )


def contiguous_windows(socket: Socket, wrapping: bool = False) -> Windows:
    """The buffer at every 2 MiB of a GiB."""
    whole = -(-socket.l2s * HELD_BYTES // LARGE_BYTES) * LARGE_BYTES
    sizes = [GIB, whole - LARGE_BYTES] if wrapping else [GIB]
    return _windows(socket, Pages(np.zeros(len(sizes), dtype=np.uint64), np.array(sizes, dtype=np.int64)))


def random_pages(socket: Socket, packing: Packing, draws: int, seed: int) -> NDArray[np.float64]:
    """Shares of random 2 MiB pages, as many draws.

    "packed": one buffer over the pages, of which the L2s hold neighbouring parts; "own": an L2 holds the
    beginning of a page of its own. A draw has the same pages, as far as they go, on every socket.
    """
    drawn = (random_window(socket, packing, draw, seed) for draw in range(draws))
    return np.array([excess_shares(socket, windows, [0])[0] for windows in drawn])


def random_window(socket: Socket, packing: Packing, draw: int, seed: int) -> Windows:
    """One draw of random pages, all of which are held."""
    count = socket.l2s if packing == "own" else -(-socket.l2s * HELD_BYTES // LARGE_BYTES)
    drawn = np.random.default_rng([seed, draw]).permutation(POOL_BYTES // LARGE_BYTES)[:count]
    cores = np.arange(count) * socket.cores_per_l2 if packing == "own" else None
    addresses = drawn.astype(np.uint64) * np.uint64(LARGE_BYTES)
    return _windows(socket, Pages(addresses, np.full(count, LARGE_BYTES), cores))


def evictions(machine: Machine, held: Held) -> float:
    """Evictions by the snoop filter a line read, when each L2's lines are read in turn, over and over.

    One core an L2, all in step; counted once nothing is new any more. Lines beyond the ways of their set push
    out others of it, which come back in the next sweep: at least as many as the static count has, at most all
    lines of such sets, and none where that has none.
    """
    caches = caches_below_l1(machine)
    l2s = np.unique(held.l2s)
    of_l2s = [_lines(held.in_l2(int(l2))) for l2 in l2s]
    cores = np.repeat((l2s * machine.l2.shared_by.value).astype(np.uint32), [len(lines) for lines in of_l2s])
    in_step = np.lexsort((cores, np.concatenate([np.arange(len(lines)) for lines in of_l2s])))
    lines, cores = np.concatenate(of_l2s)[in_step], cores[in_step]
    reads = np.full(len(cores), _core.AccessKind.read.value, dtype=np.uint8)
    for sweep in range(SWEEPS):
        if sweep == WARM_UP:
            caches.reset_counts()
        caches.access(lines, cores, reads)
    return float(count(caches, "sf_evictions").sum()) / (len(reads) * (SWEEPS - WARM_UP))


def _lines(held: Held) -> NDArray[np.uint64]:
    """All of them, one by one."""
    firsts = held.addresses // np.uint64(LINE_BYTES)
    return np.concatenate(
        [first + np.arange(lines, dtype=np.uint64) for first, lines in zip(firsts, held.lines, strict=True)]
    )


def _windows(socket: Socket, pages: Pages) -> Windows:
    return Windows(pages, socket, socket.cores, HELD_BYTES // LINE_BYTES)
