"""Prints replays of a recording."""

from collections.abc import Iterator, Sequence

from pagelens.cli.text.tables import table, wrap
from pagelens.measure.files import Replayed
from pagelens.units import format_time

_COLUMNS = ("way", "operations", "processor", "wall", "speed")
_WIDTHS = (32, -10, -10, -10, -7)


def render_replay(ways: Sequence[Replayed], rounds: int) -> Iterator[str]:
    """Yield a line for each way. Speeds are over the first way's wall time."""
    first = ways[0].wall_s
    yield from table(
        _COLUMNS,
        [
            (way.title, f"{way.operations:,}", format_time(way.cpu_s), format_time(way.wall_s),
             f"{first / way.wall_s:.2f}x")
            for way in ways
        ],
        _WIDTHS,
    )  # fmt: skip
    yield from wrap(
        f"Measured: medians of {rounds} rounds, by one thread, without its waits for a processor that others "
        "had."
    )
