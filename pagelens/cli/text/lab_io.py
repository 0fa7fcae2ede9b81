"""Prints what a slow core does to I/O."""

from collections.abc import Iterator, Sequence

from pagelens.cli.text.tables import table, wrap
from pagelens.lab import Written
from pagelens.units import format_binary_size, format_rate

_COLUMNS = ("writes", "of", "obtained", "predicted", "error", "processor busy")
_WIDTHS = (10, -9, -11, -11, -7, -15)


def render_written(written: Sequence[Written], file_bytes: int, disk_rate: float) -> Iterator[str]:
    """Yield the conclusion, and a line for each size of requests."""
    ways = [[each for each in written if each.direct == way] for way in (False, True)]
    buffered, direct = (min(of, key=lambda each: each.seconds) for of in ways)
    found = (file_bytes / buffered.seconds, file_bytes / direct.seconds, disk_rate)
    rates = [format_rate(rate) for rate in found]
    yield from wrap(
        f"On this emulated core, buffered writes reach {rates[0]} and direct ones {rates[1]}. The disk takes "
        f"{rates[2]}. The processor was busy {buffered.busy:.0%} and {direct.busy:.0%} of the time."
    )
    yield ""
    yield from table(_COLUMNS, [_row(each, file_bytes) for each in written], _WIDTHS)
    yield from wrap(
        "Obtained rates are measured by the guest's clock, with the sync of the file. Predicted rates are "
        "modelled; the lines without one are the inputs of the model."
    )


def _row(each: Written, file_bytes: int) -> tuple[str, ...]:
    told = each.predicted_s
    return (
        "direct" if each.direct else "buffered",
        format_binary_size(each.request),
        format_rate(file_bytes / each.seconds),
        "" if told is None else format_rate(file_bytes / told),
        "" if told is None else f"{each.seconds / told - 1:+.0%}",
        f"{each.busy:.0%}",
    )
