"""The placement of least modelled time under a capacity: a mixed-integer linear program, solved by HiGHS.

    minimise    sum over i of t[i]
    subject to  t[i] >= slow[r, i] + per_read[r] P[i] + per_write[r] Q[i]      every resource, every interval
                P[i] = sum over o of reads[i, o] x[o],  Q[i] = sum over o of writes[i, o] x[o]
                sum over o of live_bytes[m, o] x[o] <= capacity                every moment
                x[o] in [0, 1], in {0, 1} where an object is not divided

Objects that are given away free their bytes for those of later moments: temporaries share the fast memory.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, hstack, vstack

from pagelens.errors import Failure
from pagelens.place.cost import Cost
from pagelens.place.profile import Profile

Floats = NDArray[np.float64]

GAP = 1e-4  # of the least time: what the solver may leave, as a share
SECONDS = 60.0  # it may take; the placement is the best found until then
LEAST_DIVIDED = 128 << 10  # bytes of a block that is mapped by itself, so that a part of it can lie elsewhere


@dataclass(frozen=True)
class Optimum:
    """Shares [o] in fast memory, and how far from the least time they may be at most (0.01: one percent)."""

    shares: Floats
    gap: float


def divided(profile: Profile) -> NDArray[np.bool_]:
    """[o] whether a share of an object can lie in fast memory: of large blocks, by pages."""
    blocks = np.array([max(1, known.births) for known in profile.objects])
    return np.asarray(profile.bytes / blocks >= LEAST_DIVIDED)


def optimum(profile: Profile, cost: Cost, capacity: float, seconds: float = SECONDS) -> Optimum:
    """The best static placement; `capacity` in bytes of one rank.

    Raises Failure if the solver finds none, which every all-zero placement would be.
    """
    chosen = np.flatnonzero(profile.can_be_placed & (profile.traffic > 0) & (profile.bytes > 0))
    shares = np.zeros(len(profile.objects))
    if not len(chosen) or capacity <= 0:
        return Optimum(shares, 0.0)
    solved = _solve(profile, cost, capacity, chosen, seconds)
    shares[chosen] = np.clip(solved.shares, 0, 1)
    return Optimum(_within(profile, shares, capacity), solved.gap)


def _solve(
    profile: Profile, cost: Cost, capacity: float, chosen: NDArray[np.intp], seconds: float
) -> Optimum:
    """Variables: shares of `chosen`, then P, Q and t of every interval. Times are in those of all slow."""
    intervals = cost.slow.shape[1]
    unit = float(cost.slow.max(axis=0).sum())
    reads, writes = cost.reads[:, chosen], cost.writes[:, chosen]
    scales = [max(1.0, float(lines.sum(axis=1).max())) for lines in (reads, writes)]
    eye, none = csr_array(np.eye(intervals)), csr_array((intervals, intervals))
    sums = [
        hstack([csr_array(reads / scales[0]), -eye, none, none]),
        hstack([csr_array(writes / scales[1]), none, -eye, none]),
    ]
    no_shares = csr_array((intervals, len(chosen)))
    bounds = [
        hstack([no_shares, -eye * (read * scales[0] / unit), -eye * (write * scales[1] / unit), eye])
        for read, write in zip(cost.per_read, cost.per_write, strict=True)
    ]
    # Moments that ask for less of the chosen objects than others need no row.
    live = np.unique(profile.live_bytes[:, chosen] / capacity, axis=0)
    live = live[live.sum(axis=1) > 1]
    rows = csr_array(live) if len(live) else csr_array((0, len(chosen)))
    constraints = [
        LinearConstraint(vstack(sums).tocsr(), 0, 0),
        LinearConstraint(vstack(bounds).tocsr(), (cost.slow / unit).ravel(), np.inf),
    ]
    if len(live):
        padding = coo_array((len(live), 3 * intervals))
        constraints.append(LinearConstraint(hstack([rows, padding]).tocsr(), -np.inf, 1))
    whole = ~divided(profile)[chosen]
    variables = len(chosen) + 3 * intervals
    # Where memory costs no time, fast memory is left to others.
    thrift = 1e-9 * profile.bytes[chosen] / profile.bytes[chosen].sum()
    found = milp(
        np.concatenate([thrift, np.zeros(2 * intervals), np.ones(intervals)]),
        integrality=np.concatenate([whole, np.zeros(3 * intervals)]),
        bounds=Bounds(
            np.zeros(variables), np.concatenate([np.ones(len(chosen)), np.full(3 * intervals, np.inf)])
        ),
        constraints=constraints,
        options={"mip_rel_gap": GAP, "time_limit": seconds},
    )
    if found.x is None:
        raise Failure(f"no placement was found within {seconds:g} s: {found.message}; name fewer objects")
    return Optimum(found.x[: len(chosen)], float(found.mip_gap or 0.0))


def _within(profile: Profile, shares: Floats, capacity: float) -> Floats:
    """The shares without the solver's last rounding errors: no moment has more than the capacity."""
    most = float((profile.live_bytes @ shares).max(initial=0.0))
    divisible = divided(profile)
    if most <= capacity or not divisible.any():
        return shares
    shares = shares.copy()
    shares[divisible] *= 1 - 2 * (most / capacity - 1)
    return shares
