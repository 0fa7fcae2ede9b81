"""Makes the report of an analysis: the rows that the terminal, `place.json` and the figure show."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pagelens.place.analysis import Analysis, PoliciesAtCapacity
from pagelens.place.cache_mode import CacheMode
from pagelens.place.phases import OUTSIDE
from pagelens.place.policies import ALL_FAST, ALL_SLOW, BETWEEN_REGIONS, MOVING, OURS, TITLES
from pagelens.place.report import CacheModeRow, ObjectRow, PhaseRow, PlaceReport, PolicyRow
from pagelens.place.time_model import TimeModel

Floats = NDArray[np.float64]

TOGETHER = 0.05  # of a phase's lines: objects with less are not named


def build_report(
    analysis: Analysis,
    command: str,
    cache_modes: Sequence[CacheMode],
    notes: Sequence[str],
    plan: str,
    moves: bool = False,
) -> PlaceReport:
    """Return the report. With `moves`, its objects move between regions where that gains.

    `command` is what the user typed. `plan` is the path of the plan, or empty without one.
    """
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
        all_slow_s=analysis.model.all_slow_s,
        all_fast_s=analysis.model.all_fast_s,
        optimum_gap=analysis.at_capacity.gap,
        policies=[*_bounds(analysis), *_rows(analysis, analysis.at_capacity), *_moving(analysis)],
        sweep=[row for placed in analysis.sweep for row in _rows(analysis, placed)],
        cache_mode=[
            CacheModeRow(
                bytes=each.bytes,
                in_a_row_s=each.in_a_row_s,
                at_random_s=each.at_random_s,
                gain_in_a_row=analysis.model.gain(each.in_a_row_s),
                gain_at_random=analysis.model.gain(each.at_random_s),
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
    return _rows(analysis, PoliciesAtCapacity(analysis.at_capacity.capacity, bounds, 0.0))


def _rows(analysis: Analysis, placed: PoliciesAtCapacity) -> list[PolicyRow]:
    live = analysis.profile.live_bytes
    rows = []
    for name, shares in placed.shares.items():
        seconds = analysis.model.seconds(shares)
        rows.append(
            PolicyRow(
                policy=name,
                title=TITLES[name],
                capacity_bytes=round(placed.capacity),
                time_s=seconds,
                speedup=analysis.model.all_slow_s / seconds if seconds else 1.0,
                gain=analysis.model.gain(seconds),
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
                speedup=analysis.model.all_slow_s / moving.seconds if moving.seconds else 1.0,
                gain=analysis.model.gain(moving.seconds),
                fast_bytes=round(min(most, capacity)),
                copied_bytes=round(moving.copied_bytes / analysis.profile.ranks),
            )
        )
    return rows


def _phases(analysis: Analysis) -> list[PhaseRow]:
    profile, model = analysis.profile, analysis.model
    objects = len(profile.objects)
    times = {
        "all_slow_s": model.by_interval(np.zeros(objects)),
        "all_fast_s": model.by_interval(np.ones(objects)),
        "optimum_s": model.by_interval(analysis.at_capacity.shares[OURS]),
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
                bound_by=model.resources[int(np.argmax(_bounding(model)[:, inside].sum(axis=1)))],
                lines=round(float(own.sum())),
                fast_lines=float(shares @ analysis.at_capacity.shares[OURS]),
                objects={profile.objects[o].name: float(shares[o]) for o in chosen},
            )
        )
    return rows


def _bounding(model: TimeModel) -> Floats:
    """Return seconds [r, i] of each interval with all in slow memory.

    They are those of the resource that bounds the interval, and 0 for all others.
    """
    return np.where(model.slow == model.slow.max(axis=0), model.slow, 0.0)


def _objects(analysis: Analysis, moving: bool) -> list[ObjectRow]:
    profile, model = analysis.profile, analysis.model
    lines = profile.reads + profile.writes
    by_phase = np.array(
        [
            lines[analysis.phases.of_interval == number].sum(axis=0)
            for number in range(len(analysis.phases.names))
        ]
    )
    total = np.maximum(lines.sum(axis=0), 1)
    # [r, o] is the number of the object's lines in intervals that the resource bounds.
    decided = (_bounding(model) > 0).astype(float) @ lines
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
            bound_by=model.resources[int(np.argmax(decided[:, o]))],
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
