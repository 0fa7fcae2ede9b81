"""The live pages of a process: from captured trees of /proc, damaged ones too, and of this very process."""

import mmap
import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from pagelens.errors import PagelensError
from pagelens.host.process_pages import VIRTUAL_MACHINE, in_virtual_machine, read_process

FRAME, LARGE = 4096, 512
PRESENT = 1 << 63
SWAPPED = 1 << 62
SHARED = 1 << 61


class Tree:
    """A captured tree: mappings of (first page, rights, {page: pagemap entry}, lines of smaps)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "proc" / "7"
        self.folder.mkdir(parents=True)
        self.pagemap = self.folder / "pagemap"
        self.pagemap.touch()
        self.smaps = ""

    def add(
        self, first: int, pages: int, rights: str, frames: dict[int, int], rss: str | None = None
    ) -> None:
        rss = f"Rss: {4 * len(frames)} kB" if rss is None else rss
        self.smaps += (
            f"{first * FRAME:x}-{(first + pages) * FRAME:x} {rights} 00000000 00:00 0        [heap]\n"
            f"Size: {4 * pages} kB\n{rss}\nVmFlags: rd wr mr mw me ac sd\n"
        )
        (self.folder / "smaps").write_text(self.smaps)
        with self.pagemap.open("r+b") as file:
            if frames:
                file.truncate(max(8 * (first + pages), self.pagemap.stat().st_size))
            for page, entry in frames.items():
                file.seek(8 * page)
                file.write(struct.pack("<Q", entry))

    def stated(self) -> list[tuple[int, int, int]]:
        """Virtual page, frame and size in frames."""
        pages = read_process(7, self.root)
        assert pages.virtual is not None
        return [
            (virtual // FRAME, address // FRAME, size // FRAME)
            for virtual, address, size in zip(
                pages.virtual.tolist(), pages.addresses.tolist(), pages.sizes.tolist(), strict=True
            )
        ]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_present_pages_of_writable_mappings_by_virtual_address(tree: Tree) -> None:
    tree.add(100, 4, "r-xp", {101: PRESENT | 5})  # the program's code
    tree.add(200, 4, "rw-p", {200: PRESENT | 70, 202: PRESENT | 60, 203: SWAPPED | 9})
    tree.add(300, 2, "rw-s", {300: PRESENT | SHARED | 60, 301: PRESENT | SHARED | 61})  # 60: seen before
    tree.add(400, 1 << 20, "rw-p", {}, rss="Rss: 0 kB")  # reserved only
    assert tree.stated() == [(200, 70, 1), (202, 60, 1), (301, 61, 1)]


def test_pages_of_2_mib_are_found_where_they_lie_in_one_piece(tree: Tree) -> None:
    whole = {1024 + i: PRESENT | 4096 + i for i in range(LARGE)}
    crooked = {1536 + i: PRESENT | 8193 + i for i in range(LARGE)}  # in one piece, but not at a multiple
    broken = {2048 + i: PRESENT | (16384 + i if i != 300 else 99) for i in range(LARGE)}
    tree.add(1020, 1540, "rw-p", {1023: PRESENT | 4095, **whole, **crooked, **broken})
    stated = tree.stated()
    assert stated[:2] == [(1023, 4095, 1), (1024, 4096, LARGE)]
    assert [size for _, _, size in stated[1:]] == [LARGE, *[1] * (2 * LARGE)]
    assert stated[2 : 2 + LARGE] == [(1536 + i, 8193 + i, 1) for i in range(LARGE)]


def test_hugetlb_pages_are_not_in_rss_but_live(tree: Tree) -> None:
    frames = {LARGE + i: PRESENT | SHARED | 2 * LARGE + i for i in range(LARGE)}
    tree.add(LARGE, LARGE, "rw-p", frames, rss="Rss: 0 kB\nShared_Hugetlb: 0 kB\nPrivate_Hugetlb: 2048 kB")
    assert tree.stated() == [(LARGE, 2 * LARGE, LARGE)]


def test_a_virtual_machine_is_said(tree: Tree) -> None:
    tree.add(1, 1, "rw-p", {1: PRESENT | 3})
    assert read_process(7, tree.root).notes == ()
    (tree.root / "proc" / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu vme\nflags : hypervisor\n")
    assert not in_virtual_machine(tree.root)
    (tree.root / "proc" / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu vme hypervisor lm\n")
    assert read_process(7, tree.root).notes == (VIRTUAL_MACHINE,)


def refused(tree: Tree, pid: int = 7) -> str:
    with pytest.raises(PagelensError) as error:
        read_process(pid, tree.root)
    assert str(error.value).isprintable()
    return str(error.value)


def test_errors_say_what_to_do(tree: Tree) -> None:
    assert "--pid 8: cannot read" in refused(tree, 8)
    assert "name a process that is running" in refused(tree, 8)
    tree.add(10, 2, "rw-p", {}, rss="Rss: 0 kB")
    assert "it has no writable memory in use" in refused(tree)
    tree.add(20, 2, "rw-p", {20: PRESENT, 21: PRESENT})
    assert "the kernel shows frame numbers to root only; run it as root" in refused(tree)
    tree.add(30, 1, "rw-p", {30: PRESENT | 1 << 54})
    assert "frames beyond any memory" in refused(tree)
    tree.pagemap.write_bytes(tree.pagemap.read_bytes()[:-3])
    assert "ends within a mapping; did the process end?" in refused(tree)
    tree.pagemap.unlink()
    assert "pagemap (No such file or directory)" in refused(tree)


def test_damaged_trees_give_pages_or_one_line(tree: Tree) -> None:
    tree.add(20, 30, "rw-p", {page: PRESENT | page * 3 for page in range(20, 50)})
    tree.add(LARGE, LARGE, "rw-p", {LARGE + i: PRESENT | 2 * LARGE + i for i in range(LARGE)})
    smaps, pagemap = (tree.folder / "smaps").read_bytes(), tree.pagemap.read_bytes()
    draw, accepted = random.Random(1), 0
    for _ in range(400):
        damaged = bytearray(draw.choice((smaps, pagemap)))
        is_smaps = len(damaged) == len(smaps)
        for _ in range(draw.randint(1, 20)):
            at = draw.randrange(len(damaged))
            match draw.randrange(4):
                case 0:
                    damaged[at : at + draw.randint(1, 30)] = b""
                case 1:
                    damaged[at : at + 1] = draw.choice(
                        (b"f" * 20, b"-", b"\n", b"rw-p", b"\xff\xff\xff", b" 0 ")
                    )
                case _:
                    damaged[at] = draw.randrange(256)
            if not damaged:
                damaged = bytearray(b"\0")
        (tree.folder / "smaps").write_bytes(damaged if is_smaps else smaps)
        tree.pagemap.write_bytes(pagemap if is_smaps else damaged)
        try:
            pages = read_process(7, tree.root)
        except PagelensError as error:
            text = str(error)
        else:
            accepted += 1
            assert len(set(pages.addresses.tolist())) == len(pages.sizes) > 0
            continue
        assert text.isprintable()
    assert 0 < accepted < 400


def own_frame(address: int) -> int:
    """Reads one entry of this process's pagemap by hand; it is 0 if the kernel does not say."""
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(address // FRAME * 8)
        (entry,) = struct.unpack("<Q", file.read(8))
    return int(entry) & ((1 << 55) - 1) if int(entry) & PRESENT else 0


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel shows frame numbers to root only")
def test_a_real_process() -> None:
    """This one: pages of a fresh mapping, of which every third is touched."""
    pages = 3000
    with mmap.mmap(-1, pages * FRAME) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(0, pages, 3):
            memory[page * FRAME] = 1
        view = np.frombuffer(memory, dtype=np.uint8)
        first = view.ctypes.data
        if own_frame(first) == 0:
            pytest.skip("the kernel hides frame numbers even from root here")
        found = read_process(os.getpid())
        assert found.virtual is not None
        within = (found.virtual >= first) & (found.virtual < first + pages * FRAME)
        expected = {first + page * FRAME: own_frame(first + page * FRAME) for page in range(0, pages, 3)}
        obtained = zip(
            found.virtual[within].tolist(), (found.addresses[within] // FRAME).tolist(), strict=True
        )
        assert dict(obtained) == expected
        assert set(found.sizes[within].tolist()) == {FRAME}
        del view


@pytest.mark.skipif(os.geteuid() == 0, reason="root is shown everything")
def test_without_root_the_remedy_is_named() -> None:
    with pytest.raises(PagelensError, match="run it as root"):
        read_process(os.getpid())


def test_a_kernel_with_larger_pages_is_refused(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add(0x1000, 16, "rw-p", {0x1000: PRESENT | 5}, rss="KernelPageSize:       64 kB\nRss: 64 kB")
    with pytest.raises(PagelensError, match="have 64 KiB, but only pages of 4 KiB can be read; give a list"):
        tree.stated()
