"""Compares two measurements, at each point and page size, over the trials."""

from collections.abc import Iterator

from pagelens.diff.chance import change, sure
from pagelens.diff.model import Difference, Setting, Table
from pagelens.diff.rows import sampled_rows
from pagelens.diff.saved import SavedMeasurement, SavedResult
from pagelens.errors import UsageError
from pagelens.units import format_binary_size


def diff_measurements(
    a: SavedMeasurement, b: SavedMeasurement, names: tuple[str, str], threshold: float
) -> Difference:
    """Compare B with A at the points that both have. Raises UsageError if they measure different kernels."""
    if (a.kernel, a.unit) != (b.kernel, b.unit):
        raise UsageError(
            f"{names[1]}: measures {b.kernel} in {b.unit}, and {names[0]} {a.kernel} in {a.unit}; "
            "compare measurements of one kernel"
        )
    points_b = {_label(result): result for result in b.results}
    changes = {
        _label(x): change(x.values, points_b[_label(x)].values) for x in a.results if _label(x) in points_b
    }
    if not changes:
        raise UsageError(f"{names[1]}: has no point in common with {names[0]}; measure the same points")
    rows = sampled_rows(changes, sure(list(changes.values())), threshold, not a.more_is_better)
    title = f"{a.title}: {a.unit}, median over the trials"
    table = Table(
        name="figures", title=title, unit="rate" if a.more_is_better else "ns", counted=False, rows=rows
    )
    return Difference(
        kind="measurements",
        a=names[0],
        b=names[1],
        sentences=[*_sentences(table), *_disturbed(a, b)],
        threshold=threshold,
        settings=list(_settings(a, b)),
        tables=[table],
    )


def _label(result: SavedResult) -> str:
    point = ", ".join(f"{name} {value}" for name, value in result.point.items())
    return f"{point} ({result.page_size})" if point else result.page_size


def _sentences(table: Table) -> Iterator[str]:
    rows = table.rows
    worse, better = [row for row in rows if row.worse], [row for row in rows if row.better]
    for what, found in (("slower", worse), ("faster", better)):
        if found:
            most = max(found, key=lambda row: max(row.ratio or 0, 1 / (row.ratio or 1)))
            which = "the only point" if len(rows) == 1 else f"{len(found)} of {len(rows)} points"
            yield (
                f"B is {what} than A at {which}; most at {most.name}: {most.ratio:.2f}x A's figure (95% "
                f"interval {most.ratio_low:.2f}x to {most.ratio_high:.2f}x)."
            )
    left = len(rows) - len(worse) - len(better)
    if left == len(rows):
        yield "B does not differ from A beyond chance and the threshold."


def _disturbed(a: SavedMeasurement, b: SavedMeasurement) -> Iterator[str]:
    """Warn of measurements beside others' work, which changes the figures and is no property of the node."""
    counts = [sum(trial.disturbed for trial in of.trials) for of in (a, b)]
    if any(2 * count > len(of.trials) for count, of in zip(counts, (a, b), strict=True)):
        said = [f"{count} of {len(of.trials)}" for count, of in zip(counts, (a, b), strict=True)]
        yield (
            f"Others' work disturbed {said[0]} trials of A and {said[1]} of B. It can make the difference, "
            "too: measure again while nothing else runs."
        )


def _settings(a: SavedMeasurement, b: SavedMeasurement) -> Iterator[Setting]:
    if a.memory_bytes != b.memory_bytes:
        sizes = (format_binary_size(of.memory_bytes) for of in (a, b))
        yield Setting(name="memory", a=next(sizes), b=next(sizes))
    for x, y in ((a.system, b.system), (a.settings, b.settings), (a.ran, b.ran)):
        for name in x | y:
            if x.get(name) != y.get(name):
                yield Setting(name=name, a=str(x.get(name, "not stated")), b=str(y.get(name, "not stated")))
    values_a, values_b = (min(len(result.values) for result in of.results) for of in (a, b))
    if values_a != values_b:
        yield Setting(name="trials", a=str(values_a), b=str(values_b))
