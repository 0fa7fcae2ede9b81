"""What is compared where the user names no policy."""

import pytest
from machine_roles import (
    CACHE_MODE,
    HYBRID_MODE,
    NO_L3,
    NO_L3_SWIZZLED,
    NPS4,
    ONE_NODE_A_SOCKET,
    SNOOP_FILTER,
)
from synthetic import SyntheticWorkload

from pagelens.accesses.declared import declared
from pagelens.explain.remedies import default_policies
from pagelens.machine import load_machine

TRIAD = declared("triad", 48 << 20, 1)
WITH_CACHE = ["aged", "aged+zonesort", "random", "contiguous", "2m", "1g"]
WITHOUT = [name for name in WITH_CACHE if name != "aged+zonesort"]
SWIZZLED, APART = "aged+swizzle", "2m+offset-64k"


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (CACHE_MODE, WITH_CACHE),
        (HYBRID_MODE, WITH_CACHE),
        (SNOOP_FILTER, [*WITHOUT, APART]),
        (NO_L3, [*WITHOUT, SWIZZLED, APART]),
        (NO_L3_SWIZZLED, [*WITHOUT, APART]),
    ],
)
def test_they_are_those_that_can_make_a_difference_on_the_machine(machine: str, expected: list[str]) -> None:
    assert list(default_policies(TRIAD, load_machine(machine))) == expected


def test_a_setting_of_the_firmware_is_tried_where_the_machine_has_it() -> None:
    assert "aged+nps4" in default_policies(TRIAD, load_machine(ONE_NODE_A_SOCKET))
    assert "aged+nps4" not in default_policies(TRIAD, load_machine(NPS4))


def test_arrays_that_are_not_there_are_not_moved_apart() -> None:
    none = SyntheticWorkload(1 << 20, {"A": 1.0})
    assert list(default_policies(none, load_machine(SNOOP_FILTER))) == WITHOUT
