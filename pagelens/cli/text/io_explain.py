"""Prints an explanation of a program's operations on files in at most 80 columns."""

from collections.abc import Iterator
from pathlib import Path

from pagelens.cli.text.io import caller_lines
from pagelens.cli.text.tables import count_noun, table, wrap
from pagelens.io import GOOD, Explanation, Way, in_words
from pagelens.report import shorten
from pagelens.units import format_share, format_size, format_time

_MOSTLY = 0.5
_PATHS = ("", "count", "bytes", "processor", "model", "waiting", "model")
_PATH_WIDTHS = (20, -9, -9, -9, -9, -9, -9)
_WAYS = ("way (modelled)", "processor", "waiting", "wall", "gain", "")
_WAY_WIDTHS = (33, -9, -7, -7, -7, 12)


def render_explanation(e: Explanation) -> Iterator[str]:
    """Yield the answer, then the tables."""
    for sentence in answer(e):
        yield from wrap(sentence)
    yield ""
    yield from table(
        _PATHS,
        [
            (in_words(p.path), f"{p.operations:,}", format_size(p.bytes) if p.bytes else "",
             format_time(p.recorded_cpu_s), format_time(p.cpu_s), format_time(p.recorded_wait_s),
             format_time(p.wait_s))
            for p in e.paths
        ],
        _PATH_WIDTHS,
    )  # fmt: skip
    if e.facts.callers:
        yield ""
        yield from caller_lines(e.facts)
    yield ""
    yield from table(_WAYS, [_way(way) for way in e.ways], _WAY_WIDTHS)
    for note in e.notes:
        yield from wrap(note)


def answer(e: Explanation) -> list[str]:
    """Return the conclusion and how near the model is.

    What was recorded comes first. If the model is far off, a warning stands before what it says.
    """
    recorded, *modelled = conclusion(e)
    doubtful = e.is_far_off or e.waits_are_far_off
    return [recorded, error_line(e), *modelled] if doubtful else [recorded, *modelled, error_line(e)]


def error_line(e: Explanation) -> str:
    """Return how near the model is to the processor time and to the wall time."""
    wall = (e.cpu_s + e.wait_s, e.recorded_cpu_s + e.recorded_wait_s - e.stalled_s)
    parts = [
        f"{_off(error)} the recorded {what} ({format_time(model)} for {format_time(recorded)})"
        for what, error, model, recorded in (
            ("processor time", e.error, e.cpu_s, e.recorded_cpu_s),
            ("wall time", e.wall_error, *wall),
        )
        if error is not None
    ]
    if not parts:
        return "The model cannot be checked: the recording has no times of these operations."
    text = f"The model gives {', and '.join(parts)}."
    if e.stalls:
        text += (
            f" {format_time(e.stalled_s)} of waiting in {count_noun(e.stalls, 'operation')} do not count: "
            "the host of this virtual machine had to map memory first."
        )
    if e.error is not None and abs(e.error) > GOOD and e.varies_as_much:
        text += (
            " The machine may be the reason: while it was measured, one loop took up to "
            f"{e.spread:.2g} times as much processor time at one moment as at another."
        )
    if e.is_far_off or e.waits_are_far_off:
        text = f"Warning: {text[:1].lower()}{text[1:]}"
    if e.is_far_off:
        text += " Measure again (`pagelens measure io`), or doubt what follows."
    elif e.waits_are_far_off:
        text += (
            " Other programs can make a program wait, or the storage was faster or slower than now: record "
            "again, or doubt what follows about waiting."
        )
    return text


def _off(error: float) -> str:
    if abs(error) < 0.005:
        return "as much as"
    return f"{abs(error):.0%} {'more' if error > 0 else 'less'} than"


def conclusion(e: Explanation) -> Iterator[str]:
    """Yield what the operations took, and what would gain most."""
    wall = e.recorded_cpu_s + e.recorded_wait_s + e.other_s
    waited_for = (
        f"{e.file_system}, a processor or the host" if e.stalls else f"{e.file_system} or a processor"
    )
    parts = [
        f"{format_time(e.recorded_cpu_s)} of processor time",
        f"{format_time(e.recorded_wait_s)} of waiting for {waited_for}",
    ]
    if e.other_s > 0.01 * wall:
        names = [in_words(path) for path in e.other_paths]
        if e.other_systems:
            names.append(f"files of {', '.join(e.other_systems)}")
        parts.append(f"{format_time(e.other_s)} in what the model does not know ({'; '.join(names)})")
    shown = ", ".join(parts[:-1]) + " and " + parts[-1]
    yield f"{_share(e, wall)}: {shown}."
    best = next((way for way in e.ways[1:] if way.verdict == "gains"), None)
    if best is None and e.other_s > _MOSTLY * wall:
        yield "The model knows less than half of this time, so it cannot say what would help."
        return
    if best is None:
        yield "No other way of doing them is worth it: none gains 2% of the program's time."
        return
    yield (
        f"The best other way is {best.title}: by the model it saves {format_share(best.gain or 0)} of the "
        f"program's time{_range(best)}. "
        f"It takes {best.effort}."
    )
    if best.applied_by:
        yield f"This applies and measures it: `pagelens io run {best.applied_by} --compare 3 -- ...`"
    elif best.why_not_applied:
        yield f"`pagelens io run` does not apply it: {best.why_not_applied}."
        other = next((way for way in e.ways[1:] if way.verdict == "gains" and way.applied_by), None)
        if other is not None:
            yield (
                f"It applies another way: {other.title}. By the model, that saves "
                f"{format_share(other.gain or 0)}: `pagelens io run {other.applied_by} --compare 3 -- ...`"
            )


def _range(way: Way) -> str:
    """Return the range of a gain that rounds to more than one number."""
    low, high = (f"{100 * min(each, 1):.0f}%" for each in way.gain_range or (0.0, 0.0))
    return "" if low == high else f" ({low} to {high}, as this machine's speed varies)"


def _share(e: Explanation, wall_s: float) -> str:
    """Return how much of the run time operations took. Many threads can take more than all of it."""
    if e.facts.threads > 1 or wall_s > e.elapsed_s:
        return (
            f"Operations on files took {format_time(wall_s)} in all {count_noun(e.facts.threads, 'thread')}, "
            f"while the program ran {format_time(e.elapsed_s)}"
        )
    share = format_share(wall_s / max(e.elapsed_s, 1e-9))
    return (
        f"Operations on files took {share} of the program's time ({format_time(wall_s)} of "
        f"{format_time(e.elapsed_s)})"
    )


def _way(way: Way) -> tuple[str, ...]:
    def shown(seconds: float | None) -> str:
        return "unknown" if seconds is None else format_time(seconds)

    gain = "" if way.key == "as-it-ran" or way.gain is None else f"{round(100 * way.gain):+d}%"
    verdict = "" if way.key == "as-it-ran" or way.verdict == "gains" else way.verdict
    return shorten(way.title, 33), shown(way.cpu_s), shown(way.wait_s), shown(way.wall_s), gain, verdict


def outputs_line(directory: Path, e: Explanation) -> str:
    """Return where the results lie."""
    return f"{count_noun(e.facts.operations, 'operation')}; report: {directory / 'report.html'}"
