"""From a profile to the report: every policy at the capacity and over a sweep of capacities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.place.cache_mode import CacheMode
from pagelens.place.cost import Cost
from pagelens.place.moves import Moving, moving_optimum
from pagelens.place.optimum import LEAST_DIVIDED, SECONDS, optimum
from pagelens.place.phases import OUTSIDE, Phases, find_phases, marked_phases
from pagelens.place.plan import MOST_REGIONS
from pagelens.place.policies import (
    ALL_FAST,
    ALL_SLOW,
    BETWEEN_REGIONS,
    DEVELOPER,
    METRICS,
    MOVING,
    OURS,
    TITLES,
    fill,
)
from pagelens.place.profile import Profile
from pagelens.place.report import CacheModeRow, ObjectRow, PhaseRow, PlaceReport, PolicyRow

Floats = NDArray[np.float64]

SWEEP = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the footprint
SECONDS_OF_SWEEP = 1.0  # for integers at each of its capacities: they are for the figure
TOGETHER = 0.05  # of a phase's lines: objects with less are not named


@dataclass(frozen=True)
class Placed:
    """All policies at one capacity (bytes of one rank): shares [o] by name; the optimum's gap."""

    capacity: float
    shares: Mapping[str, Floats]
    gap: float


@dataclass(frozen=True)
class Analysis:
    """A profile with everything that is evaluated on it."""

    profile: Profile
    cost: Cost
    phases: Phases
    at_capacity: Placed
    moving: Moving
    regions: Phases  # the marked ones, between which a plan can move objects
    between_regions: Moving
    sweep: Sequence[Placed]

    @property
    def moves_gain(self) -> bool:
        """Whether a plan that moves objects between marked regions is faster than the static optimum."""
        return self.between_regions.copied_bytes > 0 or bool(
            np.ptp(self.between_regions.shares, axis=0).any()
        )

    @property
    def shares_in_regions(self) -> Mapping[str, Floats]:
        """[o] in each marked region, and before the first: OUTSIDE, as in that where there is nothing."""
        shares = dict(zip(self.regions.names, self.between_regions.shares, strict=True))
        return {OUTSIDE: next(iter(shares.values())), **shares}


def analyse(
    profile: Profile,
    capacity: float,
    developer: Sequence[int] | None,
    cancel: _core.CancelFlag | None = None,
) -> Analysis:
    """At `capacity` bytes of one rank, and over the sweep; `developer` lists objects in their order.

    Raises _core.Cancelled once `cancel` is set, between two programs of the solver: one is not stopped.
    """
    cost = Cost.of(profile)
    capacities = [share * profile.footprint_bytes for share in SWEEP] if profile.footprint_bytes else []
    phases, regions = find_phases(profile), marked_phases(profile)
    static = place(profile, cost, capacity, developer)
    _go_on(cancel)
    best = static.shares[OURS]
    between = between_regions(profile, cost, regions, capacity, best)
    _go_on(cancel)
    moving = between
    if not _same_program(profile, phases, regions):
        # Neither bounds the other: what follows a region is the region's in one, and outside in the other.
        anywhere = moving_optimum(profile, cost, phases, capacity, best)
        moving = min(anywhere, between, key=lambda found: found.seconds)
    sweep = []
    for each in capacities:
        _go_on(cancel)
        sweep.append(place(profile, cost, each, developer, SECONDS_OF_SWEEP))
    return Analysis(
        profile=profile,
        cost=cost,
        phases=phases,
        at_capacity=static,
        moving=moving,
        regions=regions,
        between_regions=between,
        sweep=sweep,
    )


def _go_on(cancel: _core.CancelFlag | None) -> None:
    if cancel is not None and cancel:
        raise _core.Cancelled


def between_regions(profile: Profile, cost: Cost, regions: Phases, capacity: float, static: Floats) -> Moving:
    """The best that a plan can say; nothing moves where there are more regions than one has shares of."""
    return moving_optimum(profile, cost, regions, capacity, static, _may_move(profile, regions))


def _may_move(profile: Profile, regions: Phases) -> NDArray[np.bool_]:
    """[o] between regions."""
    return movable(profile) & (len(regions.names) <= MOST_REGIONS)


def _same_program(profile: Profile, phases: Phases, regions: Phases) -> bool:
    """Whether objects that move between regions are all that move, and the regions are all the phases."""
    same = np.array_equal(phases.of_interval, regions.of_interval)
    return same and bool(_may_move(profile, regions)[profile.worth_placing].all())


def movable(profile: Profile) -> NDArray[np.bool_]:
    """[o] what `run --plan` moves between regions: large blocks and variables, with pages of their own."""
    blocks = np.array([max(1, known.births) for known in profile.objects])
    return np.asarray(profile.bytes / blocks >= LEAST_DIVIDED)


def place(
    profile: Profile,
    cost: Cost,
    capacity: float,
    developer: Sequence[int] | None = None,
    seconds: float = SECONDS,
) -> Placed:
    """Every policy at one capacity. Ours is the solver's, or another one's where that is no slower."""
    shares = {name: policy(profile, capacity) for name, policy in METRICS.items()}
    if developer is not None:
        shares[DEVELOPER] = fill(profile, developer, capacity)
    best = optimum(profile, cost, capacity, seconds)
    candidates = [best.shares, *shares.values()]
    least = min(candidates, key=cost.seconds)
    return Placed(capacity, {**shares, OURS: least}, best.gap)


def report(
    analysis: Analysis,
    command: str,
    cache_modes: Sequence[CacheMode],
    notes: Sequence[str],
    plan: str,
    moves: bool = False,
) -> PlaceReport:
    """What is shown of an analysis; `moves`: objects move between regions where that gains."""
    profile = analysis.profile
    return PlaceReport(
        program=profile.name,
        command=command,
        machine=profile.machine.name,
        machine_title=profile.machine.title,
        ranks=profile.ranks,
        footprint_bytes=round(profile.footprint_bytes),
        capacity_bytes=round(analysis.at_capacity.capacity),
        simulated=profile.simulated,
        all_slow_s=analysis.cost.all_slow_s,
        all_fast_s=analysis.cost.all_fast_s,
        optimum_gap=analysis.at_capacity.gap,
        policies=[*_bounds(analysis), *_rows(analysis, analysis.at_capacity), *_moving(analysis)],
        sweep=[row for placed in analysis.sweep for row in _rows(analysis, placed)],
        cache_mode=[
            CacheModeRow(
                bytes=each.bytes,
                in_a_row_s=each.in_a_row_s,
                at_random_s=each.at_random_s,
                gain_in_a_row=analysis.cost.gain(each.in_a_row_s),
                gain_at_random=analysis.cost.gain(each.at_random_s),
            )
            for each in cache_modes
        ],
        phases=_phases(analysis),
        objects=_objects(analysis, moves and bool(analysis.moves_gain)),
        notes=[*notes],
        plan=plan,
    )


def _bounds(analysis: Analysis) -> list[PolicyRow]:
    objects = len(analysis.profile.objects)
    bounds = {ALL_SLOW: np.zeros(objects), ALL_FAST: np.ones(objects)}
    return _rows(analysis, Placed(analysis.at_capacity.capacity, bounds, 0.0))


def _rows(analysis: Analysis, placed: Placed) -> list[PolicyRow]:
    live = analysis.profile.live_bytes
    rows = []
    for name, shares in placed.shares.items():
        seconds = analysis.cost.seconds(shares)
        rows.append(
            PolicyRow(
                policy=name,
                title=TITLES[name],
                capacity_bytes=round(placed.capacity),
                time_s=seconds,
                speedup=analysis.cost.all_slow_s / seconds if seconds else 1.0,
                gain=analysis.cost.gain(seconds),
                fast_bytes=round(float((live @ shares).max(initial=0.0))),
            )
        )
    return rows


def _moving(analysis: Analysis) -> list[PolicyRow]:
    capacity, live = analysis.at_capacity.capacity, analysis.profile.live_bytes
    rows = []
    for name, moving in ((MOVING, analysis.moving), (BETWEEN_REGIONS, analysis.between_regions)):
        most = float((live @ moving.shares.T).max(initial=0.0))
        rows.append(
            PolicyRow(
                policy=name,
                title=TITLES[name],
                capacity_bytes=round(capacity),
                time_s=moving.seconds,
                speedup=analysis.cost.all_slow_s / moving.seconds if moving.seconds else 1.0,
                gain=analysis.cost.gain(moving.seconds),
                fast_bytes=round(min(most, capacity)),
                copied_bytes=round(moving.copied_bytes / analysis.profile.ranks),
            )
        )
    return rows


def _phases(analysis: Analysis) -> list[PhaseRow]:
    profile, cost = analysis.profile, analysis.cost
    objects = len(profile.objects)
    times = {
        "all_slow_s": cost.by_interval(np.zeros(objects)),
        "all_fast_s": cost.by_interval(np.ones(objects)),
        "optimum_s": cost.by_interval(analysis.at_capacity.shares[OURS]),
    }
    lines = profile.reads + profile.writes
    rows = []
    for number, name in enumerate(analysis.phases.names):
        inside = analysis.phases.of_interval == number
        own = lines[inside].sum(axis=0)
        shares = own / max(1.0, own.sum())
        chosen = [o for o in np.argsort(-shares, kind="stable") if shares[o] >= TOGETHER]
        rows.append(
            PhaseRow(
                phase=name,
                **{key: float(values[inside].sum()) for key, values in times.items()},
                bound_by=cost.resources[int(np.argmax(_decided(cost)[:, inside].sum(axis=1)))],
                lines=round(float(own.sum())),
                fast_lines=float(shares @ analysis.at_capacity.shares[OURS]),
                objects={profile.objects[o].name: float(shares[o]) for o in chosen},
            )
        )
    return rows


def _decided(cost: Cost) -> Floats:
    """[r, i] seconds of an interval at the resource that decides it, all slow."""
    return np.where(cost.slow == cost.slow.max(axis=0), cost.slow, 0.0)


def _objects(analysis: Analysis, moving: bool) -> list[ObjectRow]:
    profile, cost = analysis.profile, analysis.cost
    lines = profile.reads + profile.writes
    by_phase = np.array(
        [
            lines[analysis.phases.of_interval == number].sum(axis=0)
            for number in range(len(analysis.phases.names))
        ]
    )
    total = np.maximum(lines.sum(axis=0), 1)
    # Of the lines of an object: in intervals that are decided by each resource.
    decided = (_decided(cost) > 0).astype(float) @ lines
    in_regions = dict(analysis.shares_in_regions) if moving else {}
    best = in_regions.pop(OUTSIDE, analysis.at_capacity.shares[OURS])
    order = [
        o for o in np.argsort(-lines.sum(axis=0), kind="stable") if lines[:, o].any() or profile.bytes[o]
    ]
    return [
        ObjectRow(
            name=profile.objects[o].name,
            can_be_placed=bool(profile.can_be_placed[o]),
            bytes=round(float(profile.bytes[o])),
            blocks=profile.objects[o].births,
            lifetime=float(profile.lifetime[o]),
            reads=round(float(profile.reads[:, o].sum())),
            writes=round(float(profile.writes[:, o].sum())),
            in_sequence=float(profile.in_sequence[o]),
            threads=int(profile.threads[o]),
            bound_by=cost.resources[int(np.argmax(decided[:, o]))],
            fast_share=float(best[o]),
            fast_shares={name: float(shares[o]) for name, shares in in_regions.items()},
            phases={
                name: float(by_phase[number, o] / total[o])
                for number, name in enumerate(analysis.phases.names)
                if by_phase[number, o] > 0
            },
        )
        for o in order
    ]
