"""The kernels that run on the device, compiled by Numba: STREAM's four loops and a chase of pointers.

In the loops, each thread moves one element. These are plain functions, which device.py compiles for a device
or for Numba's simulator. Arrays have one dimension and lie in either memory. This is the only module that
needs Numba when it is imported.
"""

from typing import Any

from numba import cuda

Array = Any  # of a device; Numba has its types when it compiles


def copy(to: Array, source: Array) -> None:
    """STREAM's copy, which moves 16 bytes per element."""
    i = cuda.grid(1)
    if i < to.size:
        to[i] = source[i]


def scale(to: Array, source: Array, factor: float) -> None:
    """STREAM's scale, which moves 16 bytes per element."""
    i = cuda.grid(1)
    if i < to.size:
        to[i] = factor * source[i]


def add(to: Array, first: Array, second: Array) -> None:
    """STREAM's add, which moves 24 bytes per element."""
    i = cuda.grid(1)
    if i < to.size:
        to[i] = first[i] + second[i]


def triad(to: Array, first: Array, second: Array, factor: float) -> None:
    """STREAM's triad, which moves 24 bytes per element."""
    i = cuda.grid(1)
    if i < to.size:
        to[i] = first[i] + factor * second[i]


def chase(links: Array, loads: int, at: Array) -> None:
    """Follow `loads` links from at[0] with one thread, and leave the last index in at[0].

    Links are unsigned. With a signed index, Numba would check between every two loads whether it counts from
    the end.
    """
    where = at[0]
    for _ in range(loads):
        where = links[where]
    at[0] = where


KERNELS = (copy, scale, add, triad, chase)
