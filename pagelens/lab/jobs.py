"""Describes jobs as work for guests, like the jobs of the frame model (core/frames/jobs.cpp)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.lab.memory_work import Work


@dataclass(frozen=True)
class JobShape:
    """How a job takes its memory."""

    processes: int
    longest_turn_pages: int  # first-touched by one process before another's turn: uniform from 1
    cache_interval_pages: float = float("inf")  # mean pages between two that enter the page cache


def job_work(size_bytes: int, shape: JobShape, random: _core.Random, file_pages: Iterator[int]) -> Work:
    """Return a job whose processes touch their memory in turns, and end in an order of their own.

    Pages that enter the page cache are taken from `file_pages`, which never repeats one.
    """
    work = Work()
    touched = [0] * shape.processes
    left = size_bytes // FRAME_BYTES
    while left > 0:
        process = random.below(shape.processes)
        pages = min(left, 1 + random.below(shape.longest_turn_pages))
        work.take(process, touched[process], pages)
        touched[process] += pages
        left -= pages
        if random.uniform() * shape.cache_interval_pages < pages:
            work.read(next(file_pages), 1)
    work.look()
    for process in shuffled([p for p in range(shape.processes) if touched[p]], random):
        work.leave(process)
    return work


def hold_work(size_bytes: int, kept_pages: Sequence[int], pinned: bool = False) -> Work:
    """Return a program that takes memory in order, and gives back everything but single pages."""
    work = Work()
    pages = size_bytes // FRAME_BYTES
    work.take(0, 0, pages)
    for page in kept_pages if pinned else ():
        work.pin(0, page)
    for before, after in pairwise([-1, *kept_pages, pages]):
        if after > before + 1:
            work.drop(0, before + 1, after - before - 1)
    return work


def run_work(size_bytes: int) -> Work:
    """Return a program that takes memory in order, and gives all of it back at its end."""
    work = Work()
    work.take(0, 0, size_bytes // FRAME_BYTES)
    work.look()
    work.leave(0)
    return work


def shuffled(items: list[int], random: _core.Random) -> list[int]:
    """Shuffle a list in place (Fisher and Yates), with draws as the core makes them, and return it."""
    for left in range(len(items), 1, -1):
        other = random.below(left)
        items[left - 1], items[other] = items[other], items[left - 1]
    return items
