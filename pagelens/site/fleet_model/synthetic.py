"""Makes the checks of an imaginary site, to try the rule, the page and the metrics without a history.

Its constants are assumed. They are of the size that NERSC's page on KNL's cache mode shows: 350 to 360 GB/s
after a boot, and a tail on some nodes after hours.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens.site.check import VERSION, Check

NOISE = 0.008  # standard deviation of a healthy figure, relative
DISTURBED = 0.03  # of the checks that other work lowers, and does not admit
_ORDERS = 11


@dataclass(frozen=True)
class Fleet:
    """The imaginary site."""

    nodes: int = 1000
    checks: int = 100  # the checks of each node
    bad_share: float = 0.02  # the share of nodes that are slow from some check on
    low_share: float = 0.4  # the share of a bad node's checks that are low
    every_s: float = 7200.0
    end: float = 0.0  # time of the last checks, seconds since 1970
    boots: int = 3  # the boots of a node in that time
    prefix: str = "nid"


def synthetic_checks(fleet: Fleet, rng: np.random.Generator) -> Iterator[Check]:
    """Yield all checks, node by node, each in its order."""
    bad = rng.random(fleet.nodes) < fleet.bad_share
    modes = np.where(rng.random(fleet.nodes) < 0.8, "cache, 1 NUMA node", "flat, 2 NUMA nodes")
    for node in range(fleet.nodes):
        figures = _figures(fleet, str(modes[node]), bool(bad[node]), rng)
        lengths = rng.multinomial(fleet.checks, np.full(fleet.boots, 1 / fleet.boots))
        within = np.concatenate([np.arange(length) for length in lengths])
        boot = np.repeat(np.arange(fleet.boots), lengths)
        times = fleet.end - fleet.every_s * (fleet.checks - 1 - np.arange(fleet.checks) + rng.random())
        fragments = np.minimum(1.0, within / 60)
        blocks = _free_blocks(fragments, rng)
        ids = rng.bytes(16 * fleet.checks).hex()
        for at in range(fleet.checks):
            triad = float(figures[at])
            large = int(
                sum(int(count) << (order - 9) for order, count in enumerate(blocks[at]) if order >= 9)
            )
            yield Check.model_construct(
                version=VERSION,
                id=ids[32 * at : 32 * at + 32],
                node=f"{fleet.prefix}{node:05d}",
                board=f"board-{node}",
                boot=f"{node:08x}-{boot[at]:04x}",
                hardware="KNL 7250, 96 GiB",
                mode=str(modes[node]),
                time=float(times[at]),
                uptime=600.0 + fleet.every_s * float(within[at]),
                job=str(1_000_000 + node * fleet.checks + at),
                kernels={"triad": triad, "copy": 0.97 * triad},
                disturbed=False,
                free_blocks=blocks[at].tolist(),
                unusable=round(0.6 * float(fragments[at]), 3),
                huge_2m=large,
                huge_1g=large // 700,
                turnover=round(2.5 * float(within[at]), 2),
                snoop_filter=None,
                notes=[],
            )


def _figures(fleet: Fleet, mode: str, bad: bool, rng: np.random.Generator) -> NDArray[np.float64]:
    best = 355e9 if mode.startswith("cache") else 455e9
    figures = best * (1 + NOISE * rng.standard_normal(fleet.checks))
    low = rng.random(fleet.checks) < DISTURBED
    if bad:
        begin = rng.integers(fleet.checks // 2, max(fleet.checks - 10, fleet.checks // 2 + 1))
        low[begin:] |= rng.random(fleet.checks - begin) < fleet.low_share
    figures[low] *= rng.uniform(0.3, 0.9, int(low.sum()))
    return np.round(figures)


def _free_blocks(fragments: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the free blocks [check, order] of 90 GiB. An older node has more of it in small blocks."""
    frames = 90 * (1 << 18)
    weights = np.exp(-np.abs(np.arange(_ORDERS)[None, :] - (10 - 7 * fragments[:, None])) / 1.5)
    weights *= rng.uniform(0.8, 1.2, weights.shape)
    return np.asarray(
        frames * weights / weights.sum(axis=1, keepdims=True) / 2.0 ** np.arange(_ORDERS), dtype=np.int64
    )
