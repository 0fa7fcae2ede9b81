"""Prints the speeds of NUMA nodes in at most 80 columns."""

from collections.abc import Iterator, Mapping

from pagelens.cli.text.tables import table, wrap
from pagelens.measure import NodeMatrix
from pagelens.units import format_size

_MOST_COLUMNS = 7


def render_numa(found: NodeMatrix) -> Iterator[str]:
    """Yield the two matrices, and what all nodes reach at once."""
    if len(found.columns) == 1:
        yield from wrap("This machine has one NUMA node, so no memory is remote. Its own memory (measured):")
    else:
        yield from wrap(f"What each node reads of {format_size(found.size_bytes)} on each node (measured):")
    yield ""
    yield from _matrix("ns a load", found, {node: _scaled(row, 1e9) for node, row in found.latency_s.items()})
    yield ""
    yield from _matrix("GB/s", found, {node: _scaled(row, 1e-9) for node, row in found.bandwidth.items()})
    yield ""
    if found.cached:
        yield from wrap(
            f"The caches of a node hold {format_size(found.cache_bytes)}, so these are not the speeds of "
            f"memory alone. Name a --size of at least {format_size(2 * found.cache_bytes)}."
        )
        yield ""
    for title, rates in (("its own", found.own_at_once), ("the next node's", found.other_at_once)):
        if rates:
            each = ", ".join(f"{rate * 1e-9:.1f}" for rate in rates.values())
            yield from wrap(
                f"All nodes at once, each {title} memory: {sum(rates.values()) * 1e-9:.1f} GB/s ({each})"
            )


def _scaled(row: tuple[float, ...], factor: float) -> list[float]:
    return [value * factor for value in row]


def _matrix(unit: str, found: NodeMatrix, rows: Mapping[int, list[float]]) -> Iterator[str]:
    for first in range(0, len(found.columns), _MOST_COLUMNS):
        part = slice(first, first + _MOST_COLUMNS)
        columns = [str(node) for node in found.columns[part]]
        cells = [[f"node {node}", *(f"{value:.1f}" for value in row[part])] for node, row in rows.items()]
        yield from table([unit, *columns], cells, [10, *[-8] * len(columns)])
