"""Prints the report of a placement in at most 80 columns, with the answer first."""

import textwrap
from collections.abc import Iterator

from pagelens.place import ALL_FAST, OURS, ObjectRow, PlaceReport, PolicyRow
from pagelens.report import terminal_width
from pagelens.units import format_binary_size, format_count, format_share, format_time

_MOST = 12  # objects shown
_SHOWN_CAPACITIES = 6  # of the sweep


def render_terminal(report: PlaceReport) -> str:
    """Return the report as plain text. Every line is at most 80 columns wide."""
    sections = [_answer(report), _policies(report), _objects(report), _phases(report), _sweep(report)]
    sections.append(line for note in report.notes for line in textwrap.wrap(note, terminal_width()))
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _answer(r: PlaceReport) -> Iterator[str]:
    ours = next(row for row in r.policies if row.policy == OURS)
    fast = next(row for row in r.policies if row.policy == ALL_FAST)
    if r.all_slow_s <= r.all_fast_s:
        yield from textwrap.wrap(
            "Fast memory gains nothing, because other parts of the machine limit the speed everywhere.",
            terminal_width(),
        )
        return
    gap = f" The best possible time may be up to {r.optimum_gap:.2%} less." if r.optimum_gap > 1e-4 else ""
    yield from textwrap.wrap(
        f"With the best static placement the program takes {format_time(ours.time_s)} (modelled). It runs "
        f"{_times(ours.speedup)} as fast as with all objects in slow memory. All objects in fast memory "
        f"would make that {_times(fast.speedup)}; the placement has {format_share(ours.gain)} of this gain."
        f"{gap}",
        terminal_width(),
    )


def _policies(r: PlaceReport) -> Iterator[str]:
    share = r.capacity_bytes / r.footprint_bytes if r.footprint_bytes else 1.0
    footprint, capacity = format_binary_size(r.footprint_bytes), format_binary_size(r.capacity_bytes)
    yield from textwrap.wrap(
        f"{r.program} on {r.machine_title}: {r.ranks} x {footprint} that can be placed, "
        f"fast memory for {format_share(min(1.0, share))} of it ({capacity} per rank).",
        terminal_width(),
    )
    yield f"{'policy':<18} {'time':>8} {'speed':>6} {'gain':>7} {'fast':>9}"
    for row in sorted(r.policies, key=lambda row: row.time_s):
        yield _policy(row)
    fitting = [cache for cache in r.cache_mode if cache.bytes <= r.capacity_bytes * r.ranks]
    for cache in fitting[:1]:
        for frames, seconds, gain in (
            ("in a row", cache.in_a_row_s, cache.gain_in_a_row),
            ("at random", cache.at_random_s, cache.gain_at_random),
        ):
            yield (
                f"{'cache-mode':<18} {format_time(seconds):>8} {_times(r.all_slow_s / seconds):>6} "
                f"{100 * gain:>6.0f}% {format_binary_size(cache.bytes / r.ranks):>9}  frames {frames}"
            )
    yield "gain: as a share of what all-fast gains; fast: fast memory that a rank uses."
    yield "docs/place.md says what each policy does."


def _policy(row: PolicyRow) -> str:
    copied = f"  {format_binary_size(row.copied_bytes)} copied" if row.copied_bytes else ""
    return (
        f"{row.policy:<18} {format_time(row.time_s):>8} {_times(row.speedup):>6} {100 * row.gain:>6.0f}% "
        f"{format_binary_size(row.fast_bytes):>9}{copied}"
    )


def _objects(r: PlaceReport) -> Iterator[str]:
    if not r.objects:
        return
    total = sum(known.reads + known.writes for known in r.objects) or 1
    yield f"{'object':<34} {'bytes':>8} {'lines':>8} {'':>4} {'live':>5} {'in seq':>6} {'in fast':>8}"
    for known in r.objects[:_MOST]:
        lines = known.reads + known.writes
        yield (
            f"{_cut(known.name, 34):<34} {format_binary_size(known.bytes):>8} {format_count(lines):>8} "
            f"{format_share(lines / total):>4} {format_share(known.lifetime):>5} "
            f"{format_share(known.in_sequence):>6} {_fast(known):>8}"
        )
    if len(r.objects) > _MOST:
        yield f"{len(r.objects) - _MOST} objects more in place.json."
    yield "live: share of the run; in seq: share of its lines close to the lines before;"
    yield "in fast: share of the object that the plan puts in fast memory."


def _fast(known: ObjectRow) -> str:
    """Return the share of an object that the plan puts in fast memory.

    For an object that moves, these are the least and the largest share.
    """
    if not known.can_be_placed:
        return "cannot"
    least, most = (pick([known.fast_share, *known.fast_shares.values()]) for pick in (min, max))
    if known.fast_shares and f"{least:.0%}" != f"{most:.0%}":
        return f"{100 * least:.0f}-{most:.0%}"
    return f"{known.fast_share:.0%}"


def _phases(r: PlaceReport) -> Iterator[str]:
    if len(r.phases) < 2:
        return
    yield f"{'phase':<24} {'all slow':>9} {'all fast':>9} {'optimum':>9}  limited by (all slow)"
    for phase in r.phases:
        yield (
            f"{_cut(phase.phase, 24):<24} {format_time(phase.all_slow_s):>9} "
            f"{format_time(phase.all_fast_s):>9} {format_time(phase.optimum_s):>9}  {phase.bound_by}"
        )


def _sweep(r: PlaceReport) -> Iterator[str]:
    """Yield the gains of all policies at some capacities."""
    if not r.sweep or r.all_slow_s <= r.all_fast_s:
        return
    capacities = list(dict.fromkeys(row.capacity_bytes for row in r.sweep))
    step = max(1, -(-len(capacities) // _SHOWN_CAPACITIES))
    shown = capacities[::step]
    if capacities[-1] not in shown:
        shown.append(capacities[-1])
    heads = "".join(f"{format_share(c / r.footprint_bytes):>7}" for c in shown)
    yield "Share of all-fast's gain, if fast memory holds this share of the footprint:"
    yield f"{'':<18}{heads}"
    for policy in dict.fromkeys(row.policy for row in r.sweep):
        gains = {row.capacity_bytes: row.gain for row in r.sweep if row.policy == policy}
        yield f"{policy:<18}" + "".join(f"{100 * gains[c]:>6.0f}%" for c in shown)


def _times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 99.995 else f"{ratio:.0f}x"


def _cut(text: str, width: int) -> str:
    text = text.replace("(anonymous namespace)::", "")
    return text if len(text) <= width else text[: width - 1] + "…"
