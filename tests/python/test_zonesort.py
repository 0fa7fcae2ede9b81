"""The kernel module in a guest, on each kernel that it is for: what it does to frames, and its interface."""

from pathlib import Path

import pytest
from zonesort_guest import (
    DEBUGFS,
    INTERFACE,
    PARAMETERS,
    clear_messages,
    complaints,
    conflict_share,
    largest_blocks,
    lists_after_sort,
    shell,
    statistics,
    zonesort_guest,
)
from zonesort_rule import sorted_zones

from pagelens.lab.guest import Guest

MIB = 1 << 20
CACHE = 64 * MIB
REGION = 48 * MIB
MODULE = "/lab/zonesort_module.ko"


def fails_with(guest: Guest, script: str, words: str) -> None:
    done = guest.shell(script)
    assert done.status != 0
    assert words in done.output


def refuses_bad_parameters(guest: Guest) -> None:
    for parameters in (
        f"cache_bytes={CACHE + 4096}",  # not whole blocks
        "slices=0",
        f"cache_bytes={CACHE} slices=3",  # 64 MiB is not 3 x n x 4 MiB
        "slot_bytes=6144",
        "slot_bytes=2048",
        "hold_blocks=0",
        "hold_blocks=5000",
    ):
        fails_with(guest, f"insmod {MODULE} {parameters}", "")
    assert f"cache_bytes={CACHE + 4096}: 0 (as the firmware says), or a multiple" in shell(guest, "dmesg")


def spreads_the_next_job(guest: Guest) -> None:
    """Ageing scatters free frames, and with some of them held no block is whole."""
    shell(guest, "/lab/guest age 340M 0")
    shell(guest, "/lab/guest age 340M 600 > /tmp/held & until grep -q ready /tmp/held; do sleep 0.2; done")
    aged, broken = conflict_share(guest, REGION, CACHE), largest_blocks(guest)
    shell(guest, f"echo 0 > {PARAMETERS}/evacuate; echo 0 > {INTERFACE}/nodeid")
    assert statistics(guest)["blocks_evacuated"] == 0
    sorted_only = conflict_share(guest, REGION, CACHE)
    shell(guest, f"echo 1 > {PARAMETERS}/evacuate; echo 0 > {INTERFACE}/nodeid")
    mended = conflict_share(guest, REGION, CACHE)
    assert aged > 0.3
    assert mended < min(0.1, sorted_only)
    assert largest_blocks(guest) > broken + 50


def reports_what_it_did(guest: Guest) -> None:
    seen = statistics(guest)
    assert seen["sorts"] == 2
    assert seen["sorts_failed"] == 0
    assert 0 < seen["lock_longest_blocks"] <= seen["lock_blocks_allowed"] == 64
    assert 0 < seen["lock_longest_ns"] < seen["longest_ns"]
    assert seen["blocks_moved"] > 1000
    assert seen["blocks_evacuated"] > 50
    assert seen["frames_evacuated"] >= seen["blocks_evacuated"]
    assert seen["drains"] > seen["blocks_evacuated"]
    assert 0 < seen["last_slots_allocated"] <= seen["last_slots"] == CACHE // 4096
    node, allocated, free = (line.split() for line in shell(guest, f"cat {DEBUGFS}/slots").splitlines())
    assert node == f"node 0 cache_bytes {CACHE} source firmware slots {CACHE // 4096}".split()
    for histogram in (allocated, free):
        assert sum(map(int, histogram[1:])) == CACHE // 4096


def takes_the_cache_from_parameters(guest: Guest) -> None:
    shell(
        guest, f"cd {PARAMETERS}; echo {12 * MIB} > cache_bytes; echo 3 > slices; echo 0x10000 > slot_bytes"
    )
    node = shell(guest, f"head -1 {DEBUGFS}/slots")
    assert node == f"node 0 cache_bytes {4 * MIB} source parameter slots 1024"
    fails_with(guest, f"echo 2 > {PARAMETERS}/slices", "")
    shell(guest, f"echo 0 > {INTERFACE}/nodeid")
    assert statistics(guest)["last_slots"] == 1024
    assert statistics(guest)["last_slots_allocated"] % 16 == 0  # slots of 64 KiB


def leaves_the_lists_as_the_rule_has_them(guest: Guest) -> None:
    """Block by block, in every list of every zone; the rule starts from the kernel's own picture."""
    shell(guest, "insmod /lab/pagelens_state.ko")
    for _ in range(3):  # the kernel may have allocated between the sort and the picture
        frames, zones = lists_after_sort(guest)
        assert sum(len(blocks) for zone in zones for blocks in zone.values()) > 100
        expected = sorted_zones(CACHE // 4096, {frame % (CACHE // 4096) for frame in frames}, zones)
        if zones == expected:
            break
    assert zones == expected
    shell(guest, "rmmod pagelens_state")


def keeps_holds_short(guest: Guest) -> None:
    """With one block a hold, there are as many holds as blocks."""
    before = statistics(guest)
    shell(guest, f"echo 1 > {PARAMETERS}/hold_blocks; echo 0 > {INTERFACE}/nodeid")
    after = statistics(guest)
    handled = sum(after[name] - before[name] for name in ("blocks_moved", "blocks_skipped"))
    assert after["lock_holds"] - before["lock_holds"] == handled > 0


def has_the_interface_of_the_first_zonesort(guest: Guest) -> None:
    assert shell(guest, f"stat -c %a {INTERFACE}/nodeid {INTERFACE}/sort_interval").split() == ["664", "664"]
    fails_with(guest, f"cat {INTERFACE}/nodeid", "Operation not permitted")
    for bad in ("7", "9999999", "-1", "node0", ""):
        fails_with(guest, f"echo '{bad}' > {INTERFACE}/nodeid", "Invalid argument")
    shell(guest, f"printf '0\\0' > {INTERFACE}/nodeid")  # as Slurm writes it
    assert shell(guest, f"cat {INTERFACE}/sort_interval") == "0 sec"
    fails_with(guest, f"echo soon > {INTERFACE}/sort_interval", "Invalid argument")

    sorts = statistics(guest)["sorts"]
    shell(guest, f"echo 1 > {INTERFACE}/sort_interval")
    assert shell(guest, f"cat {INTERFACE}/sort_interval") == "1 sec"
    fails_with(guest, f"echo 0 > {INTERFACE}/nodeid", "Device or resource busy")
    shell(guest, f"until [ $(head -1 {DEBUGFS}/stats | cut -d' ' -f2) -gt {sorts} ]; do sleep 0.2; done")
    shell(guest, f"echo 0 > {INTERFACE}/sort_interval")
    assert shell(guest, f"cat {INTERFACE}/sort_interval") == "0 sec"
    shell(guest, f"echo 0 > {INTERFACE}/nodeid")


@pytest.mark.parametrize("kernel", [pytest.param("6.1", marks=pytest.mark.long), "6.12"])
def test_the_module_sorts_a_guest(kernel: str, tmp_path: Path) -> None:
    with zonesort_guest(kernel, tmp_path, "512MiB", described_cache=CACHE) as guest:
        clear_messages(guest)
        refuses_bad_parameters(guest)
        shell(guest, f"insmod {MODULE}")
        spreads_the_next_job(guest)
        reports_what_it_did(guest)
        leaves_the_lists_as_the_rule_has_them(guest)
        keeps_holds_short(guest)
        takes_the_cache_from_parameters(guest)
        has_the_interface_of_the_first_zonesort(guest)
        shell(guest, "rmmod zonesort_module")
        assert complaints(guest) == []
