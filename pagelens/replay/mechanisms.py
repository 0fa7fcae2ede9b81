"""The mechanisms that time is attributed to, and the words for each of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Mechanism:
    """The words and the colour of one mechanism."""

    name: str  # its name in `AttributionRecord.parts`
    term: str  # its name as a summand of the time
    loss: str  # its name as a part of the loss, in a sentence
    without: str | None  # the counterfactual without it; None: not shown among the what-ifs
    colour: str  # Okabe, Ito: Color Universal Design, 2008; beyond its eight, of equal lightness


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every set of the names. The empty set comes first and the whole set last."""
    for size in range(len(names) + 1):
        yield from combinations(names, size)


# Mechanisms of a memory-side cache.
CONFLICTS, WRITE_BACKS = "conflicts", "write-backs"
TWO_WAY = "direct mapping"  # no mechanism of its own: a what-if beside
# Mechanisms of everything that a line meets on a node (pagelens/replay/whole_node.py).
L2_CONFLICTS, L3_CONFLICTS, SNOOP_FILTER = "L2 conflicts", "L3 conflicts", "snoop filter"
PAGE_WALKS, ROW_CONFLICTS, FREQUENCY = "page walks", "row conflicts", "core frequency"
# Mechanisms of a machine with several NUMA nodes.
NUMA_LINKS, NUMA_CROWDING, NUMA_SHARED = "remote memory", "crowded memory", "shared lines"
# Mechanisms of both: of the memory-side cache, or of the caches in front of it.
CAPACITY, CACHE_CAPACITY = "capacity", "cache capacity"

MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(
            CAPACITY,
            "capacity of the memory-side cache",
            "the capacity of the memory-side cache",
            None,
            "#56B4E9",
        ),
        Mechanism(
            CONFLICTS,
            "conflicts in it",
            "conflicts in the memory-side cache",
            "a fully associative cache (no conflicts)",
            "#D55E00",
        ),
        Mechanism(
            WRITE_BACKS,
            "write-backs of dirty lines",
            "write-backs of dirty lines",
            "no write-backs",
            "#E69F00",
        ),
        Mechanism(CACHE_CAPACITY, "capacity of the caches", "the capacity of the caches", None, "#56B4E9"),
        Mechanism(L2_CONFLICTS, "conflicts in L2", "conflicts in L2", "a fully associative L2", "#D55E00"),
        Mechanism(L3_CONFLICTS, "conflicts in L3", "conflicts in L3", "a fully associative L3", "#CC79A7"),
        Mechanism(
            SNOOP_FILTER,
            "evictions by the snoop filter",
            "evictions by the snoop filter",
            "an unlimited snoop filter",
            "#009E73",
        ),
        Mechanism(PAGE_WALKS, "page walks", "page walks", "a TLB that never misses", "#F0E442"),
        Mechanism(
            ROW_CONFLICTS, "row conflicts in DRAM", "row conflicts in DRAM", "no row conflicts", "#0072B2"
        ),
        Mechanism(
            NUMA_LINKS,
            "the way to other NUMA nodes",
            "the way to the memory of other NUMA nodes",
            "links without limit, all memory near",
            "#332288",
        ),
        Mechanism(
            NUMA_CROWDING,
            "crowding on one NUMA node's memory",
            "crowding on the memory of one NUMA node",
            "no crowding on any NUMA node",
            "#882255",
        ),
        Mechanism(
            NUMA_SHARED,
            "lines shared by threads",
            "lines that threads take from each other",
            "no line shared by threads",
            "#44AA99",
        ),
        Mechanism(
            FREQUENCY,
            "the node's core frequency",
            "the node's core frequency",
            "the median node's core frequency",
            "#999999",
        ),
    )
}
