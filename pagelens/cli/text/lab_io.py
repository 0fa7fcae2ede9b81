"""Prints what a slow core does to I/O."""

from collections.abc import Iterator, Sequence

from pagelens.cli.text.tables import table, wrap
from pagelens.lab import Written
from pagelens.units import format_binary_size, format_rate

_COLUMNS = ("writes", "of", "obtained", "predicted", "error", "processor busy")
_WIDTHS = (10, -9, -11, -11, -7, -15)


def render_written(written: Sequence[Written], disk_rate: float) -> Iterator[str]:
    """Yield the conclusion, and a line for each size of requests and of files."""
    ways = [[each for each in written if each.way == way] for way in ("buffered", "direct")]
    buffered, direct = (min(of, key=lambda each: each.seconds) for of in ways)
    found = (buffered.bytes / buffered.seconds, direct.bytes / direct.seconds, disk_rate)
    rates = [format_rate(rate) for rate in found]
    yield from wrap(
        f"On this emulated core, buffered writes reach {rates[0]} and direct ones {rates[1]}. The disk takes "
        f"{rates[2]}. The processor was busy {buffered.busy:.0%} and {direct.busy:.0%} of the time."
    )
    yield ""
    yield from table(_COLUMNS, [_row(each) for each in written], _WIDTHS)
    yield from wrap(
        "Obtained rates are measured by the guest's clock, with the sync of the file, and without waits of "
        "the core for the host's processors. Predicted rates are modelled; the lines without one are the "
        "inputs of the model."
    )


def _row(each: Written) -> tuple[str, ...]:
    told = each.predicted_s
    return (
        each.way,
        format_binary_size(each.request),
        format_rate(each.bytes / each.seconds),
        "" if told is None else format_rate(each.bytes / told),
        "" if told is None else f"{each.seconds / told - 1:+.0%}",
        f"{each.busy:.0%}",
    )
