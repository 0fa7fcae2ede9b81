"""The audit's shares against those of a real kernel in a guest: before a sort, and what it expects of one."""

from pathlib import Path

import numpy as np
import pytest
from machine_trees import lay_out
from small_machine import small
from zonesort_guest import conflict_share, shell, zonesort_guest

from pagelens.audit.effect import Yardstick
from pagelens.audit.fragmentation import fragmentation_index, unusable_index
from pagelens.audit.huge_page_supply import Supply
from pagelens.host.frame_map import read_frame_map
from pagelens.lab.guest import Guest
from pagelens.machine import Machine
from pagelens.machine.detect import System

MIB = 1 << 20
CACHE = 256 * MIB
REGION = 320 * MIB  # more than the cache: some slots are shared even in the best order


def captured(guest: Guest, root: Path) -> System:
    files = {name: guest.get(f"/{name}") for name in ("proc/kpageflags", "proc/zoneinfo", "proc/buddyinfo")}
    return lay_out(files, root)


def expected(guest: Guest, machine: Machine, root: Path) -> float:
    """Returns the expected shares of a job of REGION after zonesort, from the guest's free frames."""
    system = captured(guest, root)
    frames = read_frame_map(system)
    assert frames is not None
    sorted_ = Supply.here(frames, system.text("/proc/zoneinfo"), machine).sorted(REGION // 4096)
    assert sorted_ is not None
    share = Yardstick(machine, None).effect(sorted_).conflict_share
    assert share is not None
    return share


@pytest.mark.long
def test_a_sort_does_what_the_audit_expects_of_it(tmp_path: Path) -> None:
    machine = small(CACHE)
    with zonesort_guest("6.1", tmp_path, "1GiB") as guest:
        shell(guest, f"insmod /lab/zonesort_module.ko cache_bytes={CACHE}")
        shell(guest, "/lab/guest age 640M 0")
        aged = conflict_share(guest, REGION, CACHE)
        told = expected(guest, machine, tmp_path / "aged")
        shell(guest, "echo 3 > /proc/sys/vm/drop_caches; echo 0 > /sys/kernel/zone_sort_free_pages/nodeid")
        sorted_ = conflict_share(guest, REGION, CACHE)
        assert aged > sorted_ + 0.1
        assert sorted_ > 0.2
        assert told == pytest.approx(sorted_, abs=0.05)

        # Scattered pages that stay: what the guest holds is held, what it frees is free.
        shell(guest, "/lab/guest age 400M 50 > /tmp/kept & until grep -q ready /tmp/kept; do sleep 0.1; done")
        told = expected(guest, machine, tmp_path / "held")
        shell(guest, "echo 3 > /proc/sys/vm/drop_caches; echo 0 > /sys/kernel/zone_sort_free_pages/nodeid")
        sorted_ = conflict_share(guest, REGION, CACHE)
        assert told == pytest.approx(sorted_, abs=0.05)


@pytest.mark.long
def test_the_share_of_a_jobs_frames_is_that_of_the_guest(tmp_path: Path) -> None:
    cache, region = 64 * MIB, 60 * MIB
    with zonesort_guest("6.1", tmp_path, "1GiB") as guest:
        shell(guest, "/lab/guest age 640M 0")
        printed = shell(guest, f"/lab/guest frames {region} {cache}").split()
    pages, conflicts, *frames = map(int, printed)
    assert pages == len(frames)
    assert conflicts > 1000
    effect = Yardstick(small(cache), None).effect(np.array(frames))
    assert effect.conflict_share == conflicts / pages


@pytest.mark.long
def test_the_indices_are_those_that_the_kernel_shows(tmp_path: Path) -> None:
    """debugfs' extfrag/, of every zone and order, where some requests would fail: nothing large is free."""
    folder = "/sys/kernel/debug/extfrag"
    files = f"/proc/buddyinfo {folder}/unusable_index {folder}/extfrag_index"
    with zonesort_guest("6.1", tmp_path, "1GiB") as guest:
        shell(guest, "/lab/guest age 640M 2 > /tmp/kept & until grep -q ready /tmp/kept; do sleep 0.1; done")
        shell(guest, "echo 500 > /proc/sys/vm/nr_hugepages")  # all that there are
        shell(guest, "mount -t debugfs none /sys/kernel/debug 2> /dev/null || true")
        lines = shell(guest, f"sync; cat {files}").replace("zone", "").splitlines()
    columns = [line.split()[3:] for line in lines]
    zones = len(columns) // 3
    refused = 0
    for zone in range(zones):
        free, unusable, fragmented = columns[zone::zones]
        counts = list(map(int, free))
        for order in range(len(counts)):
            assert unusable_index(counts, order) == float(unusable[order])
            index = fragmentation_index(counts, order)
            assert (-1.0 if index is None else index) == float(fragmented[order])
            refused += index is not None
    assert refused > 0
