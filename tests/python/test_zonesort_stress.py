"""Sorting while other processes allocate and free: no frame is lost, or handed out twice."""

import re
from pathlib import Path

import pytest
from zonesort_guest import (
    INTERFACE,
    clear_messages,
    complaints,
    free_lists,
    shell,
    statistics,
    zonesort_guest,
)

PROCESSES = 4
ROUNDS = 2000  # of up to 512 pages each
LOADS = 100
MODULE = "/lab/zonesort_module.ko cache_bytes=0x4000000"

# Beside the processes that check what they wrote: the page cache grows and shrinks, and a block of memory
# goes offline and comes back, where the kernel can empty it.
DISTURB = """
while [ -e /tmp/disturb ]; do
    head -c 40000000 /dev/zero > /tmp/cached; rm /tmp/cached
    for memory in /sys/devices/system/memory/memory2; do
        echo offline > $memory/state; sleep 0.3; echo online_movable > $memory/state
    done
done 2>/dev/null
"""

SORT_EVERY_100_MS = f"""
echo 1 > /tmp/disturb; sh /lab/disturb & /lab/guest stress {PROCESSES} {ROUNDS} > /tmp/stress 2>&1 & stress=$!
while kill -0 $stress 2>/dev/null; do
    for node in 0 1; do echo $node > {INTERFACE}/nodeid || echo not sorted; done
    sleep 0.1
done 2>&1 | sort | uniq -c
wait $stress; status=$?
rm /tmp/disturb; wait; cat /tmp/stress; exit $status
"""

LOAD_AND_UNLOAD = f"""
/lab/guest stress {PROCESSES} {ROUNDS} > /tmp/stress 2>&1 & stress=$!
for load in $(seq {LOADS}); do
    insmod {MODULE} && echo $((load % 2)) > {INTERFACE}/nodeid && rmmod zonesort_module || exit 1
done
wait $stress; status=$?; cat /tmp/stress; exit $status
"""


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["6.1", "6.12", "6.1-debug", "6.12-debug"])
def test_no_frame_is_lost_or_handed_out_twice(kernel: str, tmp_path: Path) -> None:
    with zonesort_guest(kernel, tmp_path, "768MiB", cpus=4, nodes=2) as guest:
        clear_messages(guest)
        guest.put("/lab/disturb", DISTURB.encode())
        shell(guest, f"insmod {MODULE}")
        output = shell(guest, SORT_EVERY_100_MS)
        assert len(re.findall(r"^[1-9]\d+ checked$", output, re.M)) == PROCESSES, output
        seen = statistics(guest)
        assert seen["sorts"] > 50
        assert seen["lock_longest_blocks"] <= seen["lock_blocks_allowed"]
        assert seen["blocks_moved"] > 10 * seen["sorts"]

        # Two that ask at once: one of them is told so.
        both = f"echo 0 > {INTERFACE}/nodeid & echo 1 > {INTERFACE}/nodeid; wait"
        assert "Device or resource busy" in shell(guest, f"for i in $(seq 20); do {both}; done 2>&1; true")

        shell(guest, "rmmod zonesort_module")
        output = shell(guest, LOAD_AND_UNLOAD)
        assert len(re.findall(r"^[1-9]\d+ checked$", output, re.M)) == PROCESSES, output
        counted, walked = free_lists(guest)
        assert sum(abs(a - b) for a, b in zip(counted, walked, strict=True)) < 20  # allocated in between
        assert complaints(guest) == []
