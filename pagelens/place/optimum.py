"""Finds the placement of least modelled time under a capacity, as a mixed-integer linear program.

    minimise    sum over i of t[i]
    subject to  t[i] >= slow[r, i] + per_read[r] P[i] + per_write[r] Q[i]      every resource, every interval
                P[i] = sum over o of reads[i, o] x[o],  Q[i] = sum over o of writes[i, o] x[o]
                sum over o of live_bytes[m, o] x[o] <= capacity                every moment
                x[o] in [0, 1], in {0, 1} where an object is not divided

Freed objects leave their bytes to later moments, so temporaries share the fast memory. A moment enters the
program only when a solution breaks its limit, until no limit is broken. First the program is solved as if all
objects could be divided. If the solution divides only objects that may be divided, it is the optimum.
Otherwise few objects are wrongly divided. With up to `MOST_EXACT` objects the integers are searched. With
more, they are rounded down and the memory is refilled. The gap is the distance to the bound.
"""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csc_array, csr_array, diags_array, eye_array, hstack, vstack

from pagelens.errors import Failure
from pagelens.place.profile import Profile
from pagelens.place.time_model import TimeModel

Floats = NDArray[np.float64]

GAP = 1e-4  # of the least time: what the search of integers may leave, as a share
SECONDS = 5.0  # limit of the search; then the best placement found counts
MOST_EXACT = 500  # objects whose integers are searched
LEAST_DIVIDED = 128 << 10  # bytes of an object: of less no part is put elsewhere
_FIRST_MOMENTS, _MORE_MOMENTS = 32, 64
_ROUNDING = 1e-6  # of a share or a capacity: the solver's tolerance


@dataclass(frozen=True)
class Optimum:
    """Shares [o] in fast memory, and the gap to the least time.

    The time is at most `gap` longer than the least (0.01 is one percent).
    """

    shares: Floats
    gap: float


def divided(profile: Profile) -> NDArray[np.bool_]:
    """Return for each object [o] whether a share of it can lie in fast memory.

    Large blocks are divided by pages, other objects by blocks.
    """
    return np.asarray(profile.bytes >= LEAST_DIVIDED)


def optimum(profile: Profile, model: TimeModel, capacity: float, seconds: float = SECONDS) -> Optimum:
    """Return the best static placement.

    `capacity` is in bytes of one rank, and `seconds` limits the search of integers. Raises Failure if the
    solver fails.
    """
    chosen = profile.worth_placing
    shares = np.zeros(len(profile.objects))
    if not len(chosen) or capacity < 1:
        return Optimum(shares, 0.0)
    problem = _Problem(profile, model, capacity, chosen)
    relaxed, bound = problem.relaxed()
    whole = ~divided(profile)[chosen]
    broken = whole & (np.minimum(relaxed, 1 - relaxed) > _ROUNDING)
    found = relaxed
    if broken.any():
        found = problem.refilled(np.where(whole, np.floor(relaxed + _ROUNDING), relaxed), relaxed)
        if len(chosen) <= MOST_EXACT:
            searched, bound = problem.searched(whole, bound, seconds)
            found = min((found, searched), key=problem.seconds)
    shares[chosen] = problem.within(found, whole)
    least = model.seconds(shares)
    return Optimum(shares, max(0.0, least - bound) / least if least else 0.0)


class _Problem:
    """The linear program.

    Its variables are the shares of the chosen objects, then P, Q and t of every interval. Times are in units
    of the all-slow time.
    """

    def __init__(self, profile: Profile, model: TimeModel, capacity: float, chosen: NDArray[np.intp]) -> None:
        self._cost, self._chosen, self._objects = model, chosen, len(profile.objects)
        self.live = np.unique(profile.live_bytes[:, chosen] / capacity, axis=0)
        self.live = self.live[self.live.sum(axis=1) > 1]
        intervals, objects = model.slow.shape[1], len(chosen)
        self._count = objects
        self._unit = float(model.slow.max(axis=0).sum())
        reads, writes = model.reads[:, chosen], model.writes[:, chosen]
        units = [max(1.0, float(lines.sum(axis=1).max())) for lines in (reads, writes)]
        eye, none = eye_array(intervals), csr_array((intervals, intervals))
        self._sums = vstack(
            [
                hstack([csr_array(reads / units[0]), -eye, none, none]),
                hstack([csr_array(writes / units[1]), none, -eye, none]),
            ]
        ).tocsc()
        moved = ((model.per_read != 0) | (model.per_write != 0)).any(axis=1)
        no_shares = csr_array((intervals, objects))
        self._resources = vstack(
            [
                hstack(
                    [
                        no_shares,
                        diags_array(read * units[0] / self._unit),
                        diags_array(write * units[1] / self._unit),
                        -eye,
                    ]
                )
                for read, write in zip(model.per_read[moved], model.per_write[moved], strict=True)
            ]
        ).tocsc()
        self._slow = -(model.slow[moved] / self._unit).ravel()
        floor = model.slow[~moved].max(axis=0, initial=0.0) / self._unit
        self._least = np.concatenate([np.zeros(objects + 2 * intervals), floor])
        self._most = np.concatenate([np.ones(objects), np.full(3 * intervals, np.inf)])
        # A tiny price keeps objects that gain no time out of fast memory.
        bytes_ = profile.bytes[chosen]
        thrift = 1e-9 * bytes_ / bytes_.sum()
        self._goal = np.concatenate([thrift, np.zeros(2 * intervals), np.ones(intervals)])
        self._rows = sorted({*np.linspace(0, len(self.live) - 1, _FIRST_MOMENTS).astype(int).tolist()})
        self._rows = self._rows if len(self.live) else []

    def seconds(self, shares: Floats) -> float:
        """Return the seconds with these shares of the chosen objects."""
        everything = np.zeros(self._objects)
        everything[self._chosen] = shares
        return self._cost.seconds(everything)

    def relaxed(self) -> tuple[Floats, float]:
        """Return the shares if every object could be divided, and their seconds, which are a bound."""
        while True:
            found = linprog(
                self._goal,
                A_ub=vstack([self._resources, self._moments()]).tocsc(),
                b_ub=np.concatenate([self._slow, np.ones(len(self._rows))]),
                A_eq=self._sums,
                b_eq=np.zeros(self._sums.shape[0]),
                bounds=np.column_stack([self._least, self._most]),
                method="highs-ipm" if self._count > MOST_EXACT else "highs",
            )
            if found.x is None:
                raise Failure(f"the placement's linear program was not solved: {found.message}")
            shares = np.clip(found.x[: self._count], 0, 1)
            if not self._add_broken(shares):
                thrift = float(self._goal[: self._count] @ shares)
                return shares, float(found.fun - thrift) * self._unit

    def searched(self, whole: NDArray[np.bool_], bound: float, seconds: float) -> tuple[Floats, float]:
        """Return the best shares with undivided objects that were found in time, and their bound."""
        integral = np.concatenate([whole, np.zeros(len(self._least) - self._count)])
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            found = milp(
                self._goal,
                integrality=integral,
                bounds=Bounds(self._least, self._most),
                constraints=[
                    LinearConstraint(self._sums, 0, 0),
                    LinearConstraint(self._resources, -np.inf, self._slow),
                    LinearConstraint(self._moments().tocsr(), -np.inf, 1),
                ],
                options={"mip_rel_gap": GAP, "time_limit": left},
            )
            if found.x is None:
                break
            shares = np.clip(found.x[: self._count], 0, 1)
            if not self._add_broken(shares):
                return shares, max(bound, float(found.mip_dual_bound or 0.0) * self._unit * (1 - 1e-8))
        return np.zeros(self._count), bound

    def refilled(self, shares: Floats, wanted: Floats) -> Floats:
        """Add whole objects as far as they fit, those first of which the solution wanted most."""
        shares = shares.copy()
        used = self.live @ shares
        for number in np.argsort(-wanted, kind="stable"):
            if wanted[number] > shares[number] and len(self.live):
                more = used + (1 - shares[number]) * self.live[:, number]
                if more.max() <= 1:
                    used, shares[number] = more, 1.0
        return shares

    def within(self, shares: Floats, whole: NDArray[np.bool_]) -> Floats:
        """Remove rounding errors: whole objects stay whole, and no moment exceeds the capacity."""
        shares = np.where(whole, np.round(shares), shares) + 0.0  # a solver's -0 would show as -0%
        over = float((self.live @ shares).max(initial=0.0)) - 1
        if over > 0:
            shares = np.where(whole, shares, shares * (1 - 2 * over - 1e-12))
        return shares

    def _moments(self) -> csc_array:
        rows = csr_array(self.live[self._rows])
        return hstack([rows, csr_array((len(self._rows), len(self._least) - self._count))]).tocsc()

    def _add_broken(self, shares: Floats) -> bool:
        """Add the moments that the shares break most. Return whether there was one."""
        used = self.live @ shares
        broken = np.flatnonzero(used > 1 + _ROUNDING)
        broken = np.setdiff1d(broken, self._rows)
        self._rows += broken[np.argsort(-used[broken])][:_MORE_MOMENTS].tolist()
        return len(broken) > 0
