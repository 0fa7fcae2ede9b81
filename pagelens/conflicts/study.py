"""The public test of snoop filters: every core holds 125,000 doubles of its own at the same time.

The functions count the lines that do not fit from addresses alone, and by simulated caches that read the same
lines over and over.

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
POOL_BYTES = 96 << 30  # the pool of random pages: the memory of a socket
LARGE_BYTES = 2 << 20
GIB = 1 << 30
WARM_UP, SWEEPS = 2, 5

Packing = Literal["packed", "own"]


def contiguous(socket: Socket, wrapping: bool = False) -> NDArray[np.float64]:
    """Return the share of lines beyond the snoop filter's ways, for one buffer at every 2 MiB of a GiB.

    The buffer takes every place at which it fits into the GiB. With `wrapping` it also takes those at which
    it runs over the end and goes on at the beginning.
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
    """Return the addresses and lengths of `lines` lines from `start` on, which wrap around at 1 GiB."""
    gib = GIB // LINE_BYTES
    before_end = min(lines, gib - start % gib)
    runs = [(start % gib, before_end), (0, lines - before_end)]
    return (
        np.array([first * LINE_BYTES for first, length in runs if length], dtype=np.uint64),
        np.array([length for _, length in runs if length], dtype=np.uint32),
    )


def contiguous_windows(socket: Socket, wrapping: bool = False) -> Windows:
    """Return the same windows as `contiguous` counts."""
    whole = -(-socket.l2s * HELD_BYTES // LARGE_BYTES) * LARGE_BYTES
    sizes = [GIB, whole - LARGE_BYTES] if wrapping else [GIB]
    return _windows(socket, Pages(np.zeros(len(sizes), dtype=np.uint64), np.array(sizes, dtype=np.int64)))


def random_pages(socket: Socket, packing: Packing, draws: int, seed: int) -> NDArray[np.float64]:
    """Return the share of lines beyond the ways for each of `draws` draws of random 2 MiB pages.

    With "packed" packing, one buffer fills the pages, and the L2s hold neighbouring parts of it. With "own",
    each L2 holds the beginning of a page of its own. A draw begins with the same pages on every socket.
    """
    drawn = (random_window(socket, packing, draw, seed) for draw in range(draws))
    return np.array([excess_shares(socket, windows, [0])[0] for windows in drawn])


def random_window(socket: Socket, packing: Packing, draw: int, seed: int) -> Windows:
    """Return one draw of random pages, as a window that holds all of them."""
    count = socket.l2s if packing == "own" else -(-socket.l2s * HELD_BYTES // LARGE_BYTES)
    drawn = np.random.default_rng([seed, draw]).permutation(POOL_BYTES // LARGE_BYTES)[:count]
    cores = np.arange(count) * socket.cores_per_l2 if packing == "own" else None
    addresses = drawn.astype(np.uint64) * np.uint64(LARGE_BYTES)
    return _windows(socket, Pages(addresses, np.full(count, LARGE_BYTES), cores))


def evictions(machine: Machine, held: Held) -> float:
    """Return the snoop filter's evictions per line read, while the L2s read their lines over and over.

    One core of each L2 reads, and all cores run in step. Counting starts after WARM_UP sweeps. A line beyond
    the ways of its set evicts another line, which comes back in the next sweep. So there are at least as many
    evictions as `excess_shares` counts, at most all lines of crowded sets, and none if no set is crowded.
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
    """Return the number of every line."""
    firsts = held.addresses // np.uint64(LINE_BYTES)
    return np.concatenate(
        [first + np.arange(lines, dtype=np.uint64) for first, lines in zip(firsts, held.lines, strict=True)]
    )


def _windows(socket: Socket, pages: Pages) -> Windows:
    return Windows(pages, socket, socket.cores, HELD_BYTES // LINE_BYTES)
