"""STREAM's kernels of pagelens beside those of likwid-bench, hpcc and a STREAM of yours, in turn.

All in pages of 4 KiB, with arrays of one size (four times the last-level cache by default) and as many pinned
threads. Of likwid-bench and what stands beside it the mean repetition counts, of others the best.
likwid-bench has no scale and no add: beside those stand its copy and its triad, which move as many arrays.

Figures are ratios of medians over the rounds, with 95% of what resampled rounds give.
"""

import argparse
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from contestants import KERNELS, REPEATS, Rates, hpcc, likwid, likwid_variants, own_stream
from figures import figure
from numpy.typing import NDArray

from pagelens import _probes
from pagelens._probes import Memory, Order, Pages, StreamKernel

SAME_ARRAYS = {"copy": "copy", "scale": "copy", "add": "stream", "triad": "stream"}
FINALISTS = 2  # of likwid's variants
CPUS = sorted(os.sched_getaffinity(0))


def rates(kernel: str, n: int, threads: int, pages: Pages) -> NDArray[np.float64]:
    """GB/s of each repetition of one run in fresh memory."""
    cpus, which, isa = CPUS[:threads], StreamKernel[kernel], _probes.best_isa()
    offset = -8 * n % 4096  # arrays begin at pages, as others' do that malloc maps
    apart = 8 * n + offset
    memory = Memory(3 * apart, pages, cpus, [0, apart, 2 * apart])
    stores = _probes.better_stores(which, n, cpus)
    result = _probes.stream(memory, which, n, offset, REPEATS, cpus, isa, stores, Order.spread)
    memory.release()
    if result.error > 1e-13:
        raise SystemExit(f"{kernel}: wrong by {result.error}")
    return _probes.stream_bytes(which) * n / 1e9 / result.seconds


def mean_rate(kernel: str, n: int, threads: int, pages: Pages) -> float:
    """GB/s over all repetitions together."""
    return REPEATS / float((1 / rates(kernel, n, threads, pages)).sum())


def compare(name: str, mine: list[float], theirs: list[float], note: str, required: str = ">= 1.00") -> None:
    """A figure: the ratio of the medians of what stood side by side."""
    pairs = np.array([mine, theirs]).T
    drawn = pairs[np.random.default_rng(1).integers(len(pairs), size=(2000, len(pairs)))]
    medians = np.median(drawn, axis=1)
    low, high = np.percentile(medians[:, 0] / medians[:, 1], (2.5, 97.5))
    one, other = np.median(pairs, axis=0)
    figure(
        name, one / other, "x", required, f"{low:.2f}-{high:.2f}; {one:.1f} against {other:.1f} GB/s{note}"
    )


def in_turn(rounds: int, runs: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Runs all of them, `rounds` times, every other time backwards."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in list(runs)[:: 1 if number % 2 == 0 else -1]:
            found[name].append(runs[name]())
    return found


def beside_likwid(n: int, threads: int, rounds: int) -> None:
    """Every kernel beside the best of likwid's variants of it, and all in transparent pages, too."""
    finalists = []
    for same in ("copy", "stream"):
        tried = {v: likwid(v, n, threads) for v in likwid_variants(same)}
        finalists += sorted(tried, key=lambda v: -tried[v])[:FINALISTS]
    runs: dict[str, Callable[[], float]] = {}
    for kernel in KERNELS:
        runs[kernel] = partial(mean_rate, kernel, n, threads, Pages.small)
        runs[f"{kernel} thp"] = partial(mean_rate, kernel, n, threads, Pages.transparent)
        if kernel in ("copy", "add"):  # between the kernels that they stand beside
            for variant in finalists:
                if variant.startswith(SAME_ARRAYS[kernel]):
                    runs[variant] = partial(likwid, variant, n, threads)
    found = in_turn(rounds, runs)
    for kernel in KERNELS:
        family = [v for v in finalists if v.startswith(SAME_ARRAYS[kernel])]
        best = max(family, key=lambda v: float(np.median(found[v])))
        name = f"stream: {kernel}, {threads} threads, over likwid-bench"
        compare(name, found[kernel], found[best], f" ({best})")
        thp = f"stream: {kernel}, {threads} threads, transparent pages over 4 KiB"
        compare(thp, found[f"{kernel} thp"], found[kernel], "", required="")


def beside_stream(name: str, run: Callable[[], tuple[Rates, int]], threads: int, rounds: int) -> None:
    """Every kernel after a run of a STREAM, with arrays of its size."""
    mine: dict[str, list[float]] = {kernel: [] for kernel in KERNELS}
    theirs: dict[str, list[float]] = {kernel: [] for kernel in KERNELS}
    for _ in range(rounds):
        best, n = run()
        for kernel in KERNELS:
            mine[kernel].append(float(rates(kernel, n, threads, Pages.small)[1:].max()))
            theirs[kernel].append(best[kernel])
    for kernel in KERNELS:
        compare(f"stream: {kernel}, {threads} threads, over {name}", mine[kernel], theirs[kernel], "")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[t for t in (1, 2) if t <= len(CPUS)])
    parser.add_argument(
        "--doubles", type=int, default=0, help="of an array (default: four last-level caches)"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stream", type=Path, help="a build of STREAM to compare with, too")
    arguments = parser.parse_args()
    # In whole millions: arrays a power of two apart meet in the same banks.
    n = arguments.doubles or -(-4 * _probes.last_level_bytes(CPUS) // 8 // 10**6) * 10**6
    for threads in arguments.threads:
        if shutil.which("likwid-bench"):
            beside_likwid(n, threads, arguments.rounds)
        if shutil.which("hpcc"):
            beside_stream("hpcc", partial(hpcc, n, threads), threads, arguments.rounds)
        if arguments.stream:
            run = partial(own_stream, arguments.stream, threads)
            beside_stream(arguments.stream.name, run, threads, arguments.rounds)


if __name__ == "__main__":
    main()
