"""Free memory as a pool: from captured trees, and of this system."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from pagelens.conflicts import Pages, read_process
from pagelens.errors import PagelensError
from pagelens.host.free_frames import read_free

FRAME = 4096
ZONES = """Node 0, zone      DMA
        spanned  1000
  start_pfn:           24
Node 0, zone   Normal
        spanned  2024
  start_pfn:           1024
Node 0, zone  Movable
        spanned  0
  start_pfn:           0
Node 1, zone   Normal
        spanned  2048
  start_pfn:           4096
"""


def write(root: Path, flags: np.ndarray, zones: str = ZONES) -> None:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc" / "kpageflags").write_bytes(flags.astype("<u8").tobytes())
    (root / "proc" / "zoneinfo").write_text(zones)


def on(*frames: int) -> Pages:
    return Pages(np.array(frames, dtype=np.uint64) * np.uint64(FRAME), np.full(len(frames), FRAME))


@pytest.mark.parametrize("frames", [1, 8, 512])
def test_pages_of_which_every_frame_is_free_on_the_same_nodes(tmp_path: Path, frames: int) -> None:
    draw = np.random.default_rng(frames)
    free = draw.random(6144) < (0.5 if frames == 1 else 0.95)
    free[:512] = free[1024:2048] = free[4608:5120] = True
    other = draw.integers(0, 1 << 9, 6144)  # flags that say something else
    write(tmp_path, other | free * (1 << 10))
    for beside, nodes in (
        (on(30), [(24, 3048)]),
        (on(5000), [(4096, 6144)]),
        (on(30, 5000), [(24, 3048), (4096, 6144)]),
    ):
        found = read_free(frames * FRAME, beside, tmp_path)
        slow = [
            first * FRAME
            for begin, end in nodes
            for first in range(0, 6144, frames)
            if begin <= first and first + frames <= end and free[first : first + frames].all()
        ]
        assert found.addresses.tolist() == slow
        assert set(found.sizes.tolist()) == {frames * FRAME}


def test_what_the_file_does_not_have_is_not_free(tmp_path: Path) -> None:
    write(tmp_path, np.full(2000, 1 << 10))
    with (tmp_path / "proc" / "kpageflags").open("ab") as file:
        file.write(struct.pack("<I", 1 << 10))  # half an entry
    found = read_free(FRAME, on(30), tmp_path)
    assert found.addresses.tolist() == [frame * FRAME for frame in range(24, 2000)]


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, np.zeros(6144))
    for change, named in (
        (None, "no page of that size is free; try --page-size 4KiB"),
        ("zoneinfo", "zoneinfo (No such file or directory); run it as root"),
        ("kpageflags", "kpageflags (No such file or directory); run it as root"),
    ):
        write(tmp_path, np.zeros(6144))
        if change:
            (tmp_path / "proc" / change).unlink()
        with pytest.raises(PagelensError) as error:
            read_free(2 << 20, on(30), tmp_path)
        assert named in str(error.value)
    write(tmp_path, np.full(6144, 1 << 10), zones="Node 0, zone\n garbage \0 start_pfn: 7\n")
    with pytest.raises(PagelensError, match="no page of that size is free"):
        read_free(FRAME, on(30), tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel shows free frames to root only")
def test_memory_in_use_is_not_free() -> None:
    """This system's: some of it is free, and no frame under this process is."""
    own = read_process(os.getpid())
    free = read_free(FRAME, own)
    used = own.addresses[own.sizes == FRAME]
    assert len(free.addresses) > 0
    at = np.minimum(np.searchsorted(free.addresses, used), len(free.addresses) - 1)
    both = int((free.addresses[at] == used).sum())
    assert both < len(used) // 10  # pages may go between the two readings
