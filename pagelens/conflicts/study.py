"""The static test of snoop filters: every core holds 125,000 doubles of its own at the same time.

The amount is that of github.com/jdmccalpin/SKX-SF-Conflicts, the public test to J. D. McCalpin, HPL and DGEMM
performance variability on Intel Xeon Platinum 8160 processors, SC18.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pagelens.conflicts.held import Windows
from pagelens.conflicts.pages import Pages
from pagelens.conflicts.predict import excess_shares
from pagelens.conflicts.socket import Socket
from pagelens.machine.quantities import LINE_BYTES

HELD_BYTES = 1_000_000  # of each L2: 125,000 doubles
POOL_BYTES = 96 << 30  # that random pages are drawn from: the memory of a socket
LARGE_BYTES = 2 << 20
GIB = 1 << 30

Packing = Literal["packed", "own"]


def contiguous(socket: Socket, wrapping: bool = False) -> NDArray[np.float64]:
    """Shares beyond the snoop filter's ways of one buffer at every 2 MiB of a GiB.

    Where the buffer fits into it; `wrapping`: also where it goes on at its beginning.
    """
    whole = -(-socket.l2s * HELD_BYTES // LARGE_BYTES) * LARGE_BYTES
    sizes = [GIB, whole - LARGE_BYTES] if wrapping else [GIB]
    gib = Pages(np.zeros(len(sizes), dtype=np.uint64), np.array(sizes, dtype=np.int64))
    windows = _windows(socket, gib)
    return excess_shares(socket, windows, range(GIB // LARGE_BYTES if wrapping else len(windows)))


def random_pages(socket: Socket, packing: Packing, draws: int, seed: int) -> NDArray[np.float64]:
    """Shares of random 2 MiB pages, as many draws.

    "packed": one buffer over the pages, of which the L2s hold neighbouring parts; "own": an L2 holds the
    beginning of a page of its own. A draw has the same pages, as far as they go, on every socket.
    """
    count = socket.l2s if packing == "own" else -(-socket.l2s * HELD_BYTES // LARGE_BYTES)
    sizes = np.full(count, LARGE_BYTES)
    cores = np.arange(count) * socket.cores_per_l2 if packing == "own" else None
    shares = []
    for draw in range(draws):
        drawn = np.random.default_rng([seed, draw]).permutation(POOL_BYTES // LARGE_BYTES)[:count]
        pages = Pages(drawn.astype(np.uint64) * np.uint64(LARGE_BYTES), sizes, cores)
        shares.append(excess_shares(socket, _windows(socket, pages), [0])[0])
    return np.array(shares)


def _windows(socket: Socket, pages: Pages) -> Windows:
    return Windows(pages, socket, socket.cores, HELD_BYTES // LINE_BYTES)
