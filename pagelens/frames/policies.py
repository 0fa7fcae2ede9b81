"""Placement policies: which frames a job gets on a node, and what each policy costs its user."""

from collections.abc import Callable
from dataclasses import dataclass

from pagelens import _core
from pagelens.frames.history import NodeState
from pagelens.machine import Machine

SMALL_PAGE_BITS, HUGE_PAGE_BITS, GIGANTIC_PAGE_BITS = 12, 21, 30
HUGE_ORDER = HUGE_PAGE_BITS - SMALL_PAGE_BITS


@dataclass(frozen=True)
class Costs:
    """What a user pays for a policy; an empty string is nothing."""

    root: str
    memory: str
    code: str


@dataclass(frozen=True)
class Policy:
    """A way to place a job's pages; `place` makes the recipe that replays open."""

    name: str
    title: str
    page_bits: int  # log2 of the page size that large mappings get
    costs: Costs
    place: Callable[[Machine, NodeState], _core.Placement]
    remedy: bool  # something a user can choose, as opposed to a state that one finds a node in


def _contiguous(machine: Machine, state: NodeState) -> _core.Placement:
    return _core.place_contiguously(machine.frames)


def _random(machine: Machine, state: NodeState) -> _core.Placement:
    return _core.place_at_random(machine.frames, state.seed, state.node)


def _aged(machine: Machine, state: NodeState) -> _core.Placement:
    return _core.place_by_buddy(state.aged.buddy, 0)


def _zonesort(machine: Machine, state: NodeState) -> _core.Placement:
    return _core.place_by_buddy(state.sorted.buddy, 0)


def _huge(machine: Machine, state: NodeState) -> _core.Placement:
    return _core.place_by_buddy(state.aged.buddy, HUGE_ORDER)


def _gigantic(machine: Machine, state: NodeState) -> _core.Placement:
    return _core.place_in_gigabytes(state.aged.buddy)


def _coloured(machine: Machine, state: NodeState) -> _core.Placement:
    return _core.place_by_colour(state.aged.buddy, machine.slots)


_NOTHING = Costs(root="", memory="", code="")

_POLICIES = (
    Policy(
        "aged",
        "4 KiB pages on a node as jobs left it",
        SMALL_PAGE_BITS,
        _NOTHING,
        _aged,
        remedy=False,
    ),
    Policy(
        "aged+zonesort",
        "4 KiB pages after dropping caches and sorting the free lists",
        SMALL_PAGE_BITS,
        Costs(root="a kernel module and a prologue that drops caches", memory="", code=""),
        _zonesort,
        remedy=True,
    ),
    Policy(
        "random",
        "4 KiB pages, independent random frames",
        SMALL_PAGE_BITS,
        _NOTHING,
        _random,
        remedy=False,
    ),
    Policy(
        "contiguous",
        "contiguous frames from the bottom of memory",
        SMALL_PAGE_BITS,
        Costs(root="a reboot or another kernel", memory="", code=""),
        _contiguous,
        remedy=False,
    ),
    Policy(
        "2m",
        "2 MiB pages on the aged node",
        HUGE_PAGE_BITS,
        Costs(
            root="",
            memory="up to 2 MiB more a mapping",
            code="madvise, or none where transparent huge pages are always on",
        ),
        _huge,
        remedy=True,
    ),
    Policy(
        "1g",
        "1 GiB pages reserved at boot",
        GIGANTIC_PAGE_BITS,
        Costs(
            root="hugepages= at boot", memory="up to 1 GiB more a mapping", code="hugetlbfs or libhugetlbfs"
        ),
        _gigantic,
        remedy=True,
    ),
    Policy(
        "coloured",
        "4 KiB pages, frames chosen to fill the slots evenly",
        SMALL_PAGE_BITS,
        Costs(
            root="CAP_SYS_ADMIN to read frame numbers",
            memory="as much again while choosing",
            code="preloaded library",
        ),
        _coloured,
        remedy=True,
    ),
)
policies: dict[str, Policy] = {policy.name: policy for policy in _POLICIES}
