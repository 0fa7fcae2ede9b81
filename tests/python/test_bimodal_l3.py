"""Hits of sweeps in a victim L3 with bimodal insertion, beside those published of a Cascade Lake."""

import numpy as np
import pytest
from machine_roles import BIMODAL_L3, SNOOP_FILTER

from pagelens import _core
from pagelens.address.units import LINE_BYTES
from pagelens.machine import load_machine
from pagelens.machine.caches import Levels, build_caches

SWEEPS = 12  # of which the last counts


def share_of_hits(name: str, times: float) -> float:
    """Hits of what one core asks of its share of the L3, in sweeps through so many times that share."""
    machine = load_machine(name)
    assert machine.l3 is not None
    share = machine.l3.size.value // machine.l3.slices.value
    own = machine.l3.model_copy(
        update={
            "size": machine.l3.size.model_copy(update={"value": share}),
            "slices": machine.l3.slices.model_copy(update={"value": 1}),
            "hash": None,
        }
    )
    caches = build_caches(1, machine.l1, machine.l2, None, own, None, Levels(simulate_l1=False), seed=1)
    lines = np.arange(int(times * share / LINE_BYTES), dtype=np.uint64)
    cores = np.zeros(len(lines), dtype=np.uint32)
    kinds = np.full(len(lines), int(_core.AccessKind.read), dtype=np.uint8)
    for sweep in range(SWEEPS):
        if sweep == SWEEPS - 1:
            caches.reset_counts()
        caches.access(lines, cores, kinds)
    counts = dict(zip(_core.cache_counter_names(), np.asarray(caches.counts).sum(axis=0), strict=True))
    return float(counts["l3_hits"] / counts["l2_misses"])


def test_sweeps_through_more_than_the_l3_hit_as_published() -> None:
    """A Cascade Lake hits 20% at almost four times its L3, and a little beyond ten times."""
    assert share_of_hits(BIMODAL_L3, 4) == pytest.approx(0.20, abs=0.03)
    assert 0.03 < share_of_hits(BIMODAL_L3, 10) < 0.10


def test_older_processors_hit_nothing_through_twice_the_cache() -> None:
    assert share_of_hits(SNOOP_FILTER, 2) == 0


def test_what_fits_hits_under_both() -> None:
    assert share_of_hits(SNOOP_FILTER, 1) == share_of_hits(BIMODAL_L3, 1) == 1
