"""`pagelens fix`: the pool of huge pages, and blocks of memory, put in order from user space."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zonesort_guest import clear_messages, complaints, conflict_share, guest_program, largest_blocks, shell
from zonesort_rule import rule

from pagelens.errors import Failure, UsageError
from pagelens.fix import hugepages, offline
from pagelens.fix.system import require_real_frames
from pagelens.host.commands import Finished, ThisMachine
from pagelens.host.native_files import native_file
from pagelens.lab.guest import Guest

MIB = 1 << 20
PAGE = 2 * MIB
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB"
TOOL = Path("/lab") / hugepages.TOOL


def orders_the_pool(guest: Guest) -> None:
    cache, pages = 64 * MIB, 100
    shell(guest, f"echo {pages} > {POOL}/nr_hugepages")
    # The order for another cache is not the one for this cache.
    other = hugepages.order_pool(guest, TOOL, PAGE, 2 * PAGE, 0)
    assert hugepages.pool_frames(guest, TOOL, PAGE, 0) == other
    assert len(other) == pages

    ordered = hugepages.order_pool(guest, TOOL, PAGE, cache, 0)
    assert hugepages.pool_frames(guest, TOOL, PAGE, 0) == ordered
    assert ordered != other
    assert sorted(ordered) == sorted(other)
    assert hugepages.conflict_share(ordered, PAGE, cache) == 0
    assert len({frame % (cache // 4096) for frame in ordered[:32]}) == 32
    with pytest.raises(Failure, match=r"would be lost; echo 0 > .*/hugepages-2048kB/nr_hugepages"):
        offline.turn_memory(guest, cache, 0)
    counts = shell(guest, f"cat {POOL}/free_hugepages {POOL}/surplus_hugepages {POOL}/resv_hugepages")
    assert counts.split() == [str(pages), "0", "0"]
    shell(guest, f"echo 0 > {POOL}/nr_hugepages")


def sorts_by_turning_memory(guest: Guest) -> None:
    """Turning memory off and on sorts it, and leaves alone what is offline."""
    cache, region = 256 * MIB, 200 * MIB
    states = "/sys/devices/system/memory/memory"
    tries = f"for block in 5 4 3; do echo offline > {states}$block/state && echo $block && break; done"
    absent = int(shell(guest, f"{tries} 2> /dev/null"))
    shell(guest, "/lab/guest age 420M 0")
    before, whole = conflict_share(guest, region, cache), largest_blocks(guest)
    turned = offline.turn_memory(guest, cache, 0)
    assert turned.block_bytes == 128 * MIB
    assert sorted([absent, *turned.order, *turned.stuck]) == list(range(6))
    assert len(turned.order) >= 3
    assert 0 in turned.stuck  # the kernel's own
    assert shell(guest, f"cat {states}*/state").split().count("online") == 5
    assert shell(guest, f"cat {states}{absent}/state") == "offline"
    after = conflict_share(guest, region, cache)
    assert before > 0.2
    assert after < before / 2
    assert largest_blocks(guest) >= whole


def test_user_space_orders_frames_in_a_guest(tmp_path: Path) -> None:
    files = {str(TOOL): native_file(hugepages.TOOL), "/lab/guest": guest_program(tmp_path)}
    with Guest("6.1", "768MiB", files) as guest:
        clear_messages(guest)
        orders_the_pool(guest)
        sorts_by_turning_memory(guest)
        with pytest.raises(UsageError, match="--node 1: there is no such node; this machine has 0"):
            offline.turn_memory(guest, 64 * MIB, 1)
        with pytest.raises(UsageError, match="--node 5"):
            hugepages.pool_frames(guest, TOOL, PAGE, 5)
        assert complaints(guest) == []


@pytest.mark.long  # a guest of its own: that of the other tests has one node
def test_what_other_nodes_hold_does_not_count() -> None:
    cache = 64 * MIB
    pool = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
    with Guest("6.1", "1GiB", {str(TOOL): native_file(hugepages.TOOL)}, nodes=2) as guest:
        shell(guest, "mkdir /t && mount -t tmpfs -o size=300m,mpol=bind:0 none /t")
        shell(guest, f"dd if=/dev/zero of=/t/file bs=1M count=250 2> /dev/null; echo 80 > {pool}")
        flags = np.frombuffer(guest.get("/proc/kpageflags"), dtype=np.uint64)
        ordered = hugepages.order_pool(guest, TOOL, PAGE, cache, 1)
    firsts = [frame % (cache // 4096) // 512 for frame in ordered[:32]]
    in_use = np.flatnonzero((flags >> 10 | flags >> 17 | flags >> 20) & 1 == 0)
    nodes = np.split(in_use, [np.searchsorted(in_use, 512 * MIB // 4096)])
    other, own = (np.bincount(held % (cache // 4096) // 512, minlength=32) for held in nodes)
    assert min(other) > 500  # any slot, or the test would show nothing
    empty, full = set(np.flatnonzero(own < 64)), set(np.flatnonzero(own > 400))
    assert empty
    assert full
    assert max(map(firsts.index, empty)) < min(map(firsts.index, full))


@given(st.sets(st.integers(0, 19), max_size=12), st.integers(1, 8), st.sets(st.integers(0, 20 * 64 - 1)))
def test_blocks_of_memory_follow_the_rule(blocks: set[int], cache_blocks: int, used: set[int]) -> None:
    frames, slots = 64, 64 * cache_blocks
    found = offline.best_order(sorted(blocks), frames, slots, np.array(sorted(used)))
    own = {frame % slots for frame in used}
    assert found == [block // frames for block in rule(slots, set(), own, 6, [b * frames for b in blocks])]


def test_conflicts_of_the_first_pages() -> None:
    share = hugepages.conflict_share
    assert share([], PAGE, 4 * PAGE) == 0
    assert share([0, 512, 1024, 1536, 2048], PAGE, 4 * PAGE) == 0  # the fifth is beyond the cache
    assert share([0, 2048, 512, 1024], PAGE, 4 * PAGE) == 0.5


@pytest.mark.parametrize("cache_bytes", [0, 3 * MIB, 4 << 40])
def test_a_cache_that_cannot_be_is_refused_before_anything_is_done(cache_bytes: int) -> None:
    with pytest.raises(UsageError, match=rf"--cache {cache_bytes} bytes: a multiple of 2.* MiB, at most 1"):
        hugepages.order_pool(None, TOOL, PAGE, cache_bytes, 0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"--cache 5000 bytes: a multiple of 4"):
        offline.turn_memory(None, 5000, 0)  # type: ignore[arg-type]


class Blocks(ThisMachine):
    """This machine with a folder in place of the kernel's memory blocks; `script` runs before each other."""

    def __init__(self, folder: Path, script: str) -> None:
        self.state = folder / "memory7" / "state"
        self.state.parent.mkdir()
        self.state.write_text("online\n")
        (folder / "memory7" / "valid_zones").write_text("Movable\n")
        self.script = script

    def shell(self, script: str) -> Finished:
        return super().shell(self.script + script)


def test_ctrl_c_waits_until_the_block_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its terminal sends it to pagelens and to the shell, here while the block is offline."""
    monkeypatch.setattr(offline, "_MEMORY", tmp_path)
    interrupt = f"kill -INT $$ {os.getpid()}; sleep 1"  # longer than subprocess.run() leaves its child
    blocks = Blocks(tmp_path, f"cat() {{ command cat $1; test $1 != state || {{ {interrupt}; }}; }}; ")
    with pytest.raises(KeyboardInterrupt):
        offline._turn(blocks, 7)
    assert blocks.state.read_text() == "online_movable\n"


def test_a_block_that_the_kernel_tries_for_ever_to_empty_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline, "_MEMORY", tmp_path)
    monkeypatch.setattr(offline, "_PATIENCE_S", 1)
    blocks = Blocks(tmp_path, "cat() { echo online; }; ")
    blocks.state.unlink()
    os.mkfifo(blocks.state)  # who opens it to write waits for a reader, and none comes
    assert not offline._turn(blocks, 7)


@pytest.mark.skipif(os.geteuid() != 0, reason="root is asked for first")
def test_a_virtual_machine_is_refused(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "proc/cpuinfo"
    cpuinfo.parent.mkdir()
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu sse2 hypervisor avx2\n")
    with pytest.raises(UsageError, match="virtual machine"):
        require_real_frames(False, tmp_path)
    require_real_frames(True, tmp_path)
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu sse2 avx2\n")
    require_real_frames(False, tmp_path)
