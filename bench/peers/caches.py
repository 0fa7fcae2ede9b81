"""Caches that are fed arrays of lines: those of pagelens beside pycachesim and libCacheSim."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from contest import Contest, Contestant, Done
from numpy.typing import NDArray

from pagelens import _core

Lines = NDArray[np.uint64]

ACCESSES = 1 << 21
BATCH = 1 << 16
SETS, WAYS = 1024, 16  # 1 MiB
ONE = (("L1", SETS, WAYS),)
TWO = (("L1", 64, 8), ("L2", SETS, WAYS))
# An oracleGeneral trace of libCacheSim: time, object, size, next use (not needed for LRU).
REQUEST = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])

# What the peers lack in all contests here.
NO_FRAMES = "no frames, threads or slices; no time"


def random_lines() -> Lines:
    """Lines drawn from four times the cache."""
    return np.random.default_rng(1).integers(0, 4 * SETS * WAYS, ACCESSES).astype(np.uint64)


def triad() -> Lines:
    """Three arrays of doubles in turn, line by line: eight accesses a line."""
    place = np.arange(ACCESSES, dtype=np.uint64)
    of_array, element = place % np.uint64(3), place // np.uint64(3)
    return of_array * np.uint64(1 << 20) + element // np.uint64(8)


def _plain(sets: int, ways: int, full: bool = False) -> _core.CacheGeometry:
    return _core.CacheGeometry(sets, ways, _core.Replacement.lru, full)


def _ours(lines: Lines, make: Callable[[], _core.CacheHierarchy]) -> Done:
    caches = make()
    zeros, reads = np.zeros(BATCH, np.uint32), np.zeros(BATCH, np.uint8)
    begin, misses = time.process_time(), 0
    for at in range(0, len(lines), BATCH):
        misses += len(caches.access(lines[at : at + BATCH], zeros, reads))
    return Done(time.process_time() - begin, {"misses": misses})


def _one_level() -> _core.CacheHierarchy:
    inclusion = _core.Inclusion.non_inclusive
    return _core.CacheHierarchy(1, None, (_plain(SETS, WAYS), 1), inclusion, None, None, None, 0, False)


def _two_levels() -> _core.CacheHierarchy:
    l1, l2 = (_plain(sets, ways) for _, sets, ways in TWO)
    inclusion = _core.Inclusion.non_inclusive
    return _core.CacheHierarchy(1, (l1, 1), (l2, 1), inclusion, None, None, None, 0, False)


def _fully_associative() -> _core.CacheHierarchy:
    """A cache of one line before it changes no order of use, so the misses are those of the second alone."""
    first, second = _plain(1, 1), _plain(SETS, WAYS, full=True)
    of_second = _core.Inclusion.inclusive
    of_first = _core.Inclusion.non_inclusive
    return _core.CacheHierarchy(1, None, (first, 1), of_first, (second, of_second), None, None, 0, False)


def _pycachesim(lines: Lines, levels: tuple[tuple[str, int, int], ...]) -> Done | None:
    try:
        from cachesim import Cache, CacheSimulator, MainMemory
    except ImportError:
        return None
    memory, below, caches = MainMemory(), None, []
    for name, sets, ways in reversed(levels):
        beside = {} if below is None else {"load_from": below, "store_to": below}
        below = Cache(name, sets, ways, 64, "LRU", **beside)
        caches.append(below)
    memory.load_to(caches[0])
    memory.store_from(caches[0])
    simulator = CacheSimulator(below, memory)
    addresses = (lines * np.uint64(64)).tolist()
    begin = time.process_time()
    simulator.load(addresses, length=1)
    seconds = time.process_time() - begin
    return Done(seconds, {"misses": int(caches[0].stats()["MISS_count"])})


def _libcachesim(lines: Lines) -> Done | None:
    try:
        import libcachesim
    except ImportError:
        return None
    requests = np.zeros(len(lines), REQUEST)
    requests["object"], requests["size"] = lines, 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.oracleGeneral.bin"
        requests.tofile(path)
        kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
        reader = libcachesim.TraceReader(trace=str(path), trace_type=kind)
        cache = libcachesim.LRU(cache_size=SETS * WAYS)
        begin = time.process_time()
        share, _ = cache.process_trace(reader)
        seconds = time.process_time() - begin
    return Done(seconds, {"misses": round(share * len(lines))})


def contests() -> list[Contest]:
    """Return the contests of caches."""
    found = []
    for name, lines in (("random lines", random_lines()), ("triad", triad())):
        found += [
            Contest(
                f"a cache of 1024 x 16 lines, {name}", "accesses", len(lines),
                (
                    Contestant("pagelens", lambda lines=lines: _ours(lines, _one_level), ""),
                    Contestant("pycachesim", lambda lines=lines: _pycachesim(lines, ONE), NO_FRAMES),
                ),
                "misses",
            ),
            Contest(
                f"two levels, {name}", "accesses", len(lines),
                (
                    Contestant("pagelens", lambda lines=lines: _ours(lines, _two_levels), ""),
                    Contestant("pycachesim", lambda lines=lines: _pycachesim(lines, TWO), NO_FRAMES),
                ),
                "misses",
            ),
            Contest(
                f"16,384 lines, fully associative, {name}", "accesses", len(lines),
                (
                    Contestant("pagelens", lambda lines=lines: _ours(lines, _fully_associative), ""),
                    Contestant(
                        "libCacheSim", lambda lines=lines: _libcachesim(lines), "no sets and ways, no levels"
                    ),
                ),
                "misses",
                tolerance=1,  # it returns a share of 24 bits
            ),
        ]  # fmt: skip
    return found
