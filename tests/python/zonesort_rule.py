"""The rule of docs/zonesort.md, step 4, said slowly."""

from collections.abc import Mapping, Sequence

MOVABLE, RECLAIMABLE, UNMOVABLE = 1, 2, 0
ORDERS = range(11)
# As a job's pages use the lists up: (order, type).
LISTS = [
    *((order, MOVABLE) for order in ORDERS),
    *((order, RECLAIMABLE) for order in reversed(ORDERS)),
    *((order, UNMOVABLE) for order in reversed(ORDERS)),
]


def slots_of(block: int, order: int, slots: int) -> set[int]:
    return {frame % slots for frame in range(block, block + (1 << order))}


def rule(slots: int, allocated: set[int], own: set[int], order: int, blocks: Sequence[int]) -> list[int]:
    """The blocks of one list, the one to be handed out first at the head."""

    def group(block: int) -> int:
        return block % slots >> order

    def gain(block: int) -> int:
        vacant = slots_of(block, order, slots) - own
        return len(vacant) + len(vacant - allocated)

    def turn(block: int) -> int:
        return sum(group(other) == group(block) for other in blocks if other < block)

    first = [block for block in blocks if turn(block) == 0]
    later = [block for block in blocks if turn(block) > 0]
    return [
        *sorted(first, key=lambda block: (-gain(block), group(block))),
        *sorted(later, key=lambda block: (turn(block), group(block))),
    ]


Zone = Mapping[tuple[int, int], list[int]]  # the blocks of each list, by (order, type)


def sorted_zones(slots: int, allocated: set[int], zones: Sequence[Zone]) -> list[Zone]:
    """Every list of a node, its zones in the order in which they are used up."""
    own: set[int] = set()
    done: list[Zone] = []
    for zone in zones:
        lists: dict[tuple[int, int], list[int]] = {}
        for order, kind in LISTS:
            if blocks := zone.get((order, kind)):
                lists[order, kind] = rule(slots, allocated, own, order, blocks)
                own.update(*(slots_of(block, order, slots) for block in blocks))
        done.append(lists)
    return done
