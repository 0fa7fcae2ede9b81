"""What translating costs is the same on every placement: counted once, for one copy of the program."""

import numpy as np
import pytest
from machine_roles import CACHE_MODE

from pagelens.accesses.declared import DeclaredWorkload, declared
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import TRANSLATION_COUNTS, Machine, load_machine
from pagelens.replay.translation import Translations
from pagelens.replay.whole_node import Parts, node_model, replay_node

MEBIBYTE = 1 << 20
RANKS = 3


@pytest.fixture(scope="module")
def knl() -> Machine:
    return load_machine(CACHE_MODE)


@pytest.fixture(scope="module")
def workload() -> DeclaredWorkload:
    return declared("cg", 16 * MEBIBYTE, 2)


@pytest.mark.parametrize("name", ["random", "2m"])
def test_it_is_what_all_ranks_count_on_a_placement(
    knl: Machine, workload: DeclaredWorkload, name: str
) -> None:
    policy = policies[name]
    node = Node(knl, 1, 5, history=parse_history("boot; age(jobs=3); run"))
    parts = Parts(workload.lines_in_order(knl), [])  # all of it
    every = replay_node(parts, policy.place(knl, node), node_model(knl, rows=()), ranks=RANKS)
    counts = Translations(workload, knl, RANKS).counts(policy.page_bits)
    assert set(counts) == set(TRANSLATION_COUNTS)
    for counter, of_phases in counts.items():
        assert of_phases.tolist() == every.counts[counter].tolist(), counter
    assert counts["walks"].sum() > 0


def test_large_pages_that_were_not_to_be_had_count_as_small_ones(
    knl: Machine, workload: DeclaredWorkload
) -> None:
    found = Translations(workload, knl, RANKS)
    small, large = found.counts(12), found.counts(21)
    mixed = found.counts(21, small_share=0.25)
    assert (small["walks"] > large["walks"]).all()
    for counter, of_phases in mixed.items():
        assert of_phases == pytest.approx(0.75 * large[counter] + 0.25 * small[counter])


def test_a_machine_file_without_tlbs_has_none(knl: Machine, workload: DeclaredWorkload) -> None:
    counts = Translations(workload, knl.model_copy(update={"page_walk": None}), 1).counts(12)
    assert all(np.array_equal(of_phases, np.zeros(len(workload.phases))) for of_phases in counts.values())
