"""Finds the best placement with objects that move between memories where one phase follows another.

A move has the price of a copy. This is the program of `pagelens.place.optimum` with a share for each phase,
and with all objects divided:

    minimise    sum over i of t[i] + sum over pairs {g, h}, o of price B[g, h, o] |x[g, o] - x[h, o]|

B[g, h, o] are the bytes of o, of all ranks, that live across the borders between g and h in the run. Memory
that is allocated and freed within a phase moves for nothing. A copied byte is read from one memory and
written to the other, and overlaps nothing: price = 1 / bandwidth of the fast + 1 / bandwidth of the slow
memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array, eye_array, hstack, vstack

from pagelens.errors import Failure
from pagelens.place.phases import Phases
from pagelens.place.profile import Profile
from pagelens.place.time_model import TimeModel

Floats = NDArray[np.float64]

MOST_OBJECTS = 200  # the objects with most lines may move; all others stay


@dataclass(frozen=True)
class Moving:
    """Shares [g, o] in each phase, seconds with all copies, and the bytes of all ranks copied in the run."""

    shares: Floats
    seconds: float
    copied_bytes: float


def moving_optimum(
    profile: Profile,
    model: TimeModel,
    phases: Phases,
    capacity: float,
    static: Floats,
    movable: NDArray[np.bool_] | None = None,
) -> Moving:
    """Return the best placement with moves. It starts from `static` [o], and is never slower.

    `capacity` is in bytes of one rank. `movable` [o] says which objects may move. By default all that can be
    placed may.
    """
    count = len(phases.names)
    across = _bytes_across(profile, phases)
    staying = Moving(np.tile(static, (count, 1)), model.seconds(static), 0.0)
    may = profile.worth_placing
    if movable is not None:
        may = may[movable[may]]
    chosen = may[np.argsort(-profile.traffic[may], kind="stable")][:MOST_OBJECTS]
    if count < 2 or not len(chosen) or capacity < 1:
        return staying
    shares = staying.shares.copy()
    shares[:, chosen] = _solve(profile, model, phases, capacity, static, chosen, across)
    price = _price(profile)
    copied = sum(float((of_pair * np.abs(shares[g] - shares[h])).sum()) for (g, h), of_pair in across.items())
    seconds = float(model.by_interval(shares[phases.of_interval]).sum()) + price * copied
    return Moving(shares, seconds, copied) if seconds < staying.seconds else staying


def _solve(
    profile: Profile,
    model: TimeModel,
    phases: Phases,
    capacity: float,
    static: Floats,
    chosen: NDArray[np.intp],
    across: Mapping[tuple[int, int], Floats],
) -> Floats:
    """Return the shares [g, chosen].

    The variables are the shares by phase, t of every interval, and the |differences| of every pair.
    """
    count, objects, intervals = len(phases.names), len(chosen), model.slow.shape[1]
    unit = float(model.slow.max(axis=0).sum())
    others = static.copy()
    others[chosen] = 0
    base = model.by_resource(others) / unit  # [r, i] with what stays
    pairs = list(across)
    eye, differences = eye_array(objects), len(pairs) * objects
    rows, limits = [], []
    for resource in range(len(model.resources)):
        lines = (
            model.per_read[resource][:, None] * model.reads[:, chosen]
            + model.per_write[resource][:, None] * model.writes[:, chosen]
        )
        by_phase = [np.where((phases.of_interval == g)[:, None], lines / unit, 0.0) for g in range(count)]
        rows.append(
            hstack([*map(csr_array, by_phase), -eye_array(intervals), csr_array((intervals, differences))])
        )
        limits.append(-base[resource])
    live = [_live(profile, phases, g) for g in range(count)]
    moments = block_diag([csr_array(of[:, chosen] / capacity) for of in live])
    rows.append(hstack([moments, csr_array((moments.shape[0], intervals + differences))]))
    limits.append(np.concatenate([1 - of @ others / capacity for of in live]))
    for number, (g, h) in enumerate(pairs):
        blocks = [csr_array((objects, objects))] * count
        own = [csr_array((objects, objects))] * len(pairs)
        own[number] = -eye
        for sign in (1, -1):
            blocks[g], blocks[h] = sign * eye, -sign * eye
            rows.append(hstack([*blocks, csr_array((objects, intervals)), *own]))
            limits.append(np.zeros(objects))
    prices = [_price(profile) * across[pair][chosen] / unit for pair in pairs]
    goal = np.concatenate([np.full(count * objects, 1e-10), np.ones(intervals), *prices])
    most = np.concatenate([np.ones(count * objects), np.full(intervals + differences, np.inf)])
    found = linprog(
        goal,
        A_ub=vstack(rows).tocsc(),
        b_ub=np.concatenate(limits),
        bounds=np.column_stack([np.zeros(len(goal)), most]),
        method="highs",
    )
    if found.x is None:
        raise Failure(f"the moving placement's linear program was not solved: {found.message}")
    shares = np.clip(found.x[: count * objects], 0, 1).reshape(count, objects)
    return np.asarray(shares * (1 - 1e-6) + 0.0)  # the solver's rounding errors, and its -0


def _price(profile: Profile) -> float:
    """Return the seconds for one copied byte."""
    fast = profile.machine.fast_memory
    assert fast is not None
    return 1 / fast.bandwidth.value + 1 / profile.machine.ddr.bandwidth.value


def _interval_of_moments(profile: Profile) -> NDArray[np.intp]:
    """Return the interval that each moment [m] of the course begins in, by instructions."""
    ends = np.cumsum(profile.counts["instructions"])
    total = ends[-1] or 1.0
    at = (np.arange(len(profile.course)) + 0.5) / len(profile.course) * total
    return np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1)


def _live(profile: Profile, phases: Phases, phase: int) -> Floats:
    """Return the live bytes [m, o] at the moments of a phase.

    If no moment is known to lie in the phase, these are the moments of the whole run.
    """
    inside = phases.of_interval[_interval_of_moments(profile)] == phase
    return np.unique(profile.course[inside], axis=0) if inside.any() else profile.live_bytes


def _bytes_across(profile: Profile, phases: Phases) -> dict[tuple[int, int], Floats]:
    """Return by pair of phases the bytes [o] of all ranks that live across borders between them."""
    of_moment = _interval_of_moments(profile)
    found: dict[tuple[int, int], Floats] = {}
    for border in np.flatnonzero(np.diff(phases.of_interval)):
        before, after = (int(phases.of_interval[border + side]) for side in (0, 1))
        at = int(np.searchsorted(of_moment, border + 1))
        sides = profile.course[max(0, at - 1)], profile.course[min(at, len(profile.course) - 1)]
        pair = (min(before, after), max(before, after))
        found.setdefault(pair, np.zeros(len(profile.objects)))
        found[pair] += profile.ranks * np.minimum(*sides)
    return found
