"""What runs on the device, compiled by Numba: STREAM's four loops, an element a thread, and a chase.

Plain functions: device.py has them compiled, for a device or for Numba's simulator of one. Arrays have one
dimension and lie in either memory. The only module that needs Numba to be there when it is imported.
"""

from typing import Any

from numba import cuda

Array = Any  # of a device; Numba has its types when it compiles


def copy(to: Array, source: Array) -> None:
    """STREAM's first: 16 bytes an element."""
    i = cuda.grid(1)
    if i < to.size:
        to[i] = source[i]


def scale(to: Array, source: Array, factor: float) -> None:
    """16 bytes an element."""
    i = cuda.grid(1)
    if i < to.size:
        to[i] = factor * source[i]


def add(to: Array, first: Array, second: Array) -> None:
    """24 bytes an element."""
    i = cuda.grid(1)
    if i < to.size:
        to[i] = first[i] + second[i]


def triad(to: Array, first: Array, second: Array, factor: float) -> None:
    """24 bytes an element."""
    i = cuda.grid(1)
    if i < to.size:
        to[i] = first[i] + factor * second[i]


def chase(links: Array, loads: int, at: Array) -> None:
    """One thread follows `loads` links from at[0] and leaves there where it came to.

    Links are unsigned: of a signed index Numba asks whether it counts from the end, between every two loads.
    """
    where = at[0]
    for _ in range(loads):
        where = links[where]
    at[0] = where


KERNELS = (copy, scale, add, triad, chase)
