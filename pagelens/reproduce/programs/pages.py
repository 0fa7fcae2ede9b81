"""Pages of 2 MiB, and frames of a socket's memory for them."""

import numpy as np
from numpy.typing import NDArray

from pagelens.address.units import LINE_BYTES
from pagelens.machine import Machine

PAGE_BYTES = 2 << 20  # x86's large page
PAGE_LINES = PAGE_BYTES // LINE_BYTES

Numbers = NDArray[np.uint64]


def frames_of(machine: Machine) -> int:
    """Return the number of 2 MiB pages that the machine's memory has."""
    return machine.ddr.size.value // PAGE_BYTES


def random_frames(machine: Machine, pages: int, seed: int, draw: int) -> Numbers:
    """Draw the frame number of each 2 MiB page, without replacement.

    The same seed and draw always give the same frames.
    """
    drawn = np.random.default_rng([seed, draw]).permutation(frames_of(machine))
    return drawn[:pages].astype(np.uint64)
