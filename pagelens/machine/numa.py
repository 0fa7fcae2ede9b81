"""The NUMA nodes of a machine: their cores and memories, and what it takes from one node to another."""

from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_FRAMES
from pagelens.errors import UsageError
from pagelens.units import format_binary_size, parse_rate, parse_size, parse_time
from pagelens.values.quantities import BytesPerSecond, Sourced, Table, Unit

LEAST_BYTES, STEP_BYTES = 4 << 20, HUGE_PAGE_FRAMES * FRAME_BYTES  # of a node (core/frames/layout.cpp)
MOST_NODES = 64  # a set of nodes is a word of 64 bits (core/frames/frame_source.hpp)
LOCAL_DISTANCE, LARGEST_DISTANCE = 10, 254  # ACPI 6.5, 5.2.17: SLIT; 255 means unreachable

Rows = tuple[tuple[float, ...], ...]


def _parse_row(text: Any, parse: Callable[[str], float], example: str) -> tuple[float, ...]:
    """Return the numbers of a row such as "89 143 ns", whose unit stands at its end."""
    words = text.split() if isinstance(text, str) else []
    if len(words) < 2 or len(words) > MOST_NODES + 1:
        raise ValueError(f'a row is numbers and their unit, as "{example}"')
    try:
        return tuple(parse(f"{number} {words[-1]}") for number in words[:-1])
    except UsageError as error:
        raise ValueError(str(error)) from None


def _rows(parse: Callable[[str], float], example: str) -> BeforeValidator:
    def convert(value: Any) -> Rows:
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_NODES:
            raise ValueError(f'a matrix is an array of 1 to {MOST_NODES} rows such as "{example}"')
        return tuple(_parse_row(row, parse, example) for row in value)

    return BeforeValidator(convert)


def _show(unit: str, scale: float) -> Callable[[Rows], str]:
    def show(rows: Rows) -> str:
        return "; ".join(" ".join(f"{value * scale:.6g}" for value in row) for row in rows) + f" {unit}"

    return show


def _parse_sizes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError('the sizes of nodes are an array such as ["96 GiB", "96 GiB"]')
    try:
        return tuple(parse_size(each) for each in value)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _parse_counts(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
        raise ValueError("the cores of nodes are an array such as [18, 18]; 0 for a node without any")
    return tuple(value)


def _parse_ends(value: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(end, list) for end in value):
        raise ValueError("a link is between two lists of nodes, as [[0, 1], [2, 3]]")
    first, second = (tuple(end) for end in value)
    if not all(type(node) is int and 0 <= node < MOST_NODES for node in (*first, *second)):
        raise ValueError(f"a node's number is from 0 to {MOST_NODES - 1}")
    if not first or not second or len({*first, *second}) < len(first) + len(second):
        raise ValueError("a link has a node at each end, and none at both or twice")
    return first, second


def _parse_distances(value: Any) -> tuple[tuple[int, ...], ...]:
    example = '"10 21"'
    if not isinstance(value, list) or not all(isinstance(row, str) for row in value):
        raise ValueError(f"distances are an array of rows such as {example}")
    rows = tuple(row.split() for row in value)
    if not all(word.isdecimal() and len(word) < 4 for row in rows for word in row):
        raise ValueError(f"a row of distances is whole numbers, as {example}")
    return tuple(tuple(map(int, row)) for row in rows)


Latencies = Annotated[
    Rows,
    _rows(parse_time, "89 143 ns"),
    Unit(_show("ns", 1e9), 'rows of times, as ["89 143 ns", "143 89 ns"]'),
]
Bandwidths = Annotated[
    Rows,
    _rows(parse_rate, "105 34.3 GB/s"),
    Unit(_show("GB/s", 1e-9), 'rows of rates, as ["105 34.3 GB/s", "34.3 105 GB/s"]'),
]
Distances = Annotated[
    tuple[tuple[int, ...], ...],
    BeforeValidator(_parse_distances),
    Unit(
        lambda rows: "; ".join(" ".join(map(str, row)) for row in rows),
        'rows of numbers, as ["10 21", "21 10"]',
    ),
]
Sizes = Annotated[
    tuple[int, ...],
    BeforeValidator(_parse_sizes),
    Unit(
        lambda sizes: ", ".join(format_binary_size(size) for size in sizes), 'sizes, as ["96 GiB", "96 GiB"]'
    ),
]
Counts = Annotated[
    tuple[int, ...],
    BeforeValidator(_parse_counts),
    Unit(lambda counts: ", ".join(map(str, counts)), "whole numbers, as [18, 18]"),
]
Ends = Annotated[
    tuple[tuple[int, ...], tuple[int, ...]],
    BeforeValidator(_parse_ends),
    Unit(
        lambda ends: " and ".join(", ".join(map(str, end)) for end in ends),
        "two lists of nodes, as [[0, 1], [2, 3]]",
    ),
]


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Numa(Table):
    """The NUMA nodes, in the kernel's order, those without cores last. `[ddr]` is all of them together.

    A row of a matrix is a node with cores, and a column is a node's memory.
    """

    cores: Sourced[Counts] = Field(description="the cores of each node, node by node; 0: a node without any")
    sizes: Sourced[Sizes] = Field(description="the memory of each node")
    latencies: Sourced[Latencies] = Field(
        description="the latency of a load by a core of the row's node from the column's memory, which is "
        "idle"
    )
    bandwidths: Sourced[Bandwidths] = Field(
        description="the rate at which all cores of the row's node read the column's memory if nothing else "
        "is busy; on the diagonal, and in the largest of a column without cores, all that the memory gives"
    )
    write_bandwidths: Sourced[Bandwidths] | None = Field(
        default=None,
        description="one row: the rate at which each node's memory takes writes alone; without it, the share "
        "of its reads that `ddr.write_bandwidth` is of `ddr.bandwidth`",
    )
    line_latencies: Sourced[Latencies] | None = Field(
        default=None,
        description="the latency of a load by a core of the row's node, if a core of the column's node has "
        "changed the line and still has it in its cache; rows and columns are nodes with cores; without this "
        "field, such a load takes as long as one from the column's memory, and within a node as long as "
        "`cores.line_latency` says",
    )
    directory_writes: Sourced[Share] | None = Field(
        default=None,
        description="of the lines that one node with cores reads from another, the share that the other's "
        "memory also writes, because it holds their directory; from 0 to 1; without it 0",
    )
    distances: Sourced[Distances] | None = Field(
        default=None,
        description="the firmware's distances (SLIT) from each node to each; without them 10 to itself, "
        "20 to others",
    )

    def shrunk(self, factor: float) -> Self:
        """Return the nodes with their memories shrunk to whole pages of 2 MiB, and to 4 MiB at least."""
        sizes = tuple(
            max(LEAST_BYTES, int(size * factor) // STEP_BYTES * STEP_BYTES) for size in self.sizes.value
        )
        return self.model_copy(update={"sizes": self.sizes.model_copy(update={"value": sizes})})

    def check(self) -> None:
        """Raise ValueError for parts that do not fit together."""
        cores, nodes = self.cores.value, len(self.sizes.value)
        if not 1 <= nodes <= MOST_NODES or len(cores) != nodes:
            raise ValueError(
                f"numa.cores has {len(cores)} nodes and numa.sizes {nodes}; state both for each of 1 to "
                f"{MOST_NODES} nodes"
            )
        for node, size in enumerate(self.sizes.value):
            if size < LEAST_BYTES or size % STEP_BYTES:
                raise ValueError(
                    f"numa.sizes: node {node} has {size:,} B; a node has at least 4 MiB, in whole 2 MiB, as "
                    '"96 GiB"'
                )
        near = sum(count > 0 for count in cores)
        if near == 0 or 0 in cores[:near]:
            raise ValueError("numa.cores: nodes without cores come last, after at least one with cores")
        for name in ("latencies", "bandwidths"):
            rows = getattr(self, name).value
            if len(rows) != near or any(len(row) != nodes for row in rows):
                raise ValueError(
                    f"numa.{name} must have a row for each of the {near} nodes with cores, of {nodes} columns"
                )
        written = self.write_bandwidths
        if written is not None and [len(row) for row in written.value] != [nodes]:
            raise ValueError(
                f"numa.write_bandwidths must be one row of {nodes} columns, a rate for each node's memory"
            )
        if self.line_latencies is not None:
            rows = self.line_latencies.value
            if len(rows) != near or any(len(row) != near for row in rows):
                raise ValueError(
                    f"numa.line_latencies must have {near} rows of {near} columns, for the nodes with cores"
                )
        if self.distances is not None:
            rows = self.distances.value
            square = len(rows) == nodes and all(len(row) == nodes for row in rows)
            if not square or any(
                (far == LOCAL_DISTANCE) != (row == column) or not LOCAL_DISTANCE <= far <= LARGEST_DISTANCE
                for row, of_row in enumerate(rows)
                for column, far in enumerate(of_row)
            ):
                raise ValueError(
                    f"numa.distances must be {nodes} rows of as many numbers: {LOCAL_DISTANCE} from a node "
                    f"to itself, {LOCAL_DISTANCE + 1} to {LARGEST_DISTANCE} to others"
                )


class NumaLink(Table):
    """A link that several pairs of NUMA nodes share, such as the one between two sockets.

    Every pair of nodes is limited by `bandwidths` in any case, each way.
    """

    between: Sourced[Ends] = Field(description="the nodes at each end")
    rate: Sourced[BytesPerSecond] = Field(
        description="data that it moves towards the second end; without `back`, also the other way"
    )
    back: Sourced[BytesPerSecond] | None = Field(
        default=None, description="data that it moves towards the first end, if that differs"
    )
