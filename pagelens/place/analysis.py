"""Evaluates every policy on a profile, at the requested capacity and over a sweep of capacities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.place.moving_optimum import Moving, moving_optimum
from pagelens.place.optimum import LEAST_DIVIDED, SECONDS, optimum
from pagelens.place.phases import OUTSIDE, Phases, find_phases, marked_phases
from pagelens.place.plan import MOST_REGIONS
from pagelens.place.policies import DEVELOPER, METRICS, OURS, fill
from pagelens.place.profile import Profile
from pagelens.place.time_model import TimeModel

Floats = NDArray[np.float64]

SWEEP = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the footprint
SECONDS_OF_SWEEP = 1.0  # limit of the solver at each capacity of the sweep, which only the figure shows


@dataclass(frozen=True)
class PoliciesAtCapacity:
    """What every policy does with one capacity.

    `capacity` is in bytes of one rank. `shares` has, by policy, the share [o] of each object in fast memory.
    `gap` is the share of its time by which the optimum may miss the least time.
    """

    capacity: float
    shares: Mapping[str, Floats]
    gap: float


@dataclass(frozen=True)
class Analysis:
    """A profile with everything that was evaluated on it."""

    profile: Profile
    model: TimeModel
    phases: Phases
    at_capacity: PoliciesAtCapacity
    moving: Moving
    regions: Phases  # the marked ones, between which a plan can move objects
    between_regions: Moving
    sweep: Sequence[PoliciesAtCapacity]

    @property
    def moves_gain(self) -> bool:
        """Whether a plan that moves objects between marked regions is faster than the static optimum."""
        return self.between_regions.copied_bytes > 0 or bool(
            np.ptp(self.between_regions.shares, axis=0).any()
        )

    @property
    def shares_in_regions(self) -> Mapping[str, Floats]:
        """The shares [o] in each marked region, and under OUTSIDE those until the first region begins.

        A program that begins inside a region has no time before the first region. OUTSIDE then has the shares
        of that region.
        """
        shares = dict(zip(self.regions.names, self.between_regions.shares, strict=True))
        return {OUTSIDE: next(iter(shares.values())), **shares}


def analyse(
    profile: Profile,
    capacity: float,
    developer: Sequence[int] | None,
    cancel: _core.CancelFlag | None = None,
) -> Analysis:
    """Evaluate all policies at `capacity` (bytes of one rank) and at every capacity of the sweep.

    `developer` lists the indices of objects in a developer's order. Raises _core.Cancelled once `cancel` is
    set. The flag is looked at between two programs of the solver, which cannot be stopped within one.
    """
    model = TimeModel.of(profile)
    capacities = [share * profile.footprint_bytes for share in SWEEP] if profile.footprint_bytes else []
    phases, regions = find_phases(profile), marked_phases(profile)
    static = evaluate_policies(profile, model, capacity, developer)
    _raise_if_set(cancel)
    best = static.shares[OURS]
    between = between_regions(profile, model, regions, capacity, best)
    _raise_if_set(cancel)
    moving = between
    if not _same_program(profile, phases, regions):
        # Neither placement bounds the other: what follows a region's end belongs to the region in one of
        # them, and to no region in the other.
        anywhere = moving_optimum(profile, model, phases, capacity, best)
        moving = min(anywhere, between, key=lambda found: found.seconds)
    sweep = []
    for each in capacities:
        _raise_if_set(cancel)
        sweep.append(evaluate_policies(profile, model, each, developer, SECONDS_OF_SWEEP))
    return Analysis(
        profile=profile,
        model=model,
        phases=phases,
        at_capacity=static,
        moving=moving,
        regions=regions,
        between_regions=between,
        sweep=sweep,
    )


def _raise_if_set(cancel: _core.CancelFlag | None) -> None:
    if cancel is not None and cancel:
        raise _core.Cancelled


def between_regions(
    profile: Profile, model: TimeModel, regions: Phases, capacity: float, static: Floats
) -> Moving:
    """Return the fastest placement that a plan can state. With too many regions, nothing moves."""
    return moving_optimum(profile, model, regions, capacity, static, _may_move(profile, regions))


def _may_move(profile: Profile, regions: Phases) -> NDArray[np.bool_]:
    """Return for each object [o] whether a plan can move it between these regions."""
    return movable(profile) & (len(regions.names) <= MOST_REGIONS)


def _same_program(profile: Profile, phases: Phases, regions: Phases) -> bool:
    """Return whether moving between phases and moving between regions are the same linear program."""
    same = np.array_equal(phases.of_interval, regions.of_interval)
    return same and bool(_may_move(profile, regions)[profile.worth_placing].all())


def movable(profile: Profile) -> NDArray[np.bool_]:
    """Return for each object [o] whether `run --plan` moves it between regions.

    It moves large blocks and variables, which have pages of their own.
    """
    blocks = np.array([max(1, known.births) for known in profile.objects])
    return np.asarray(profile.bytes / blocks >= LEAST_DIVIDED)


def evaluate_policies(
    profile: Profile,
    model: TimeModel,
    capacity: float,
    developer: Sequence[int] | None = None,
    seconds: float = SECONDS,
) -> PoliciesAtCapacity:
    """Evaluate every policy at one capacity (bytes of one rank). The solver may search for `seconds`.

    If another policy is faster than what the solver found in its time, the optimum takes its shares.
    """
    shares = {name: policy(profile, capacity) for name, policy in METRICS.items()}
    if developer is not None:
        shares[DEVELOPER] = fill(profile, developer, capacity)
    best = optimum(profile, model, capacity, seconds)
    candidates = [best.shares, *shares.values()]
    least = min(candidates, key=model.seconds)
    return PoliciesAtCapacity(capacity, {**shares, OURS: least}, best.gap)
