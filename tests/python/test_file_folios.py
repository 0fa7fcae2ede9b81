"""How large the folios are that the page cache holds of a file."""

from pathlib import Path

import numpy as np
import pytest

from pagelens.host.file_folios import read_folio_share
from pagelens.host.frame_map import may_read_flags
from pagelens.host.page_entries import PRESENT
from pagelens.host.system import System

PAGE = 4096


class Frames(System):
    """A system in which each page lies in the frame of its own number, in folios of so many pages."""

    def __init__(self, folio: int) -> None:
        super().__init__()
        self.folio = folio

    def bytes_at(self, path: str, offset: int, size: int) -> bytes:
        entries = np.arange(offset // 8, (offset + size) // 8, dtype=np.uint64)
        if path == "/proc/self/pagemap":
            return (entries | PRESENT).tobytes()
        return np.where(entries % np.uint64(self.folio) == 0, 1 << 15, 1 << 16).astype("<u8").tobytes()


@pytest.mark.parametrize("folio", [1, 2, 16, 32])
def test_a_folio_counts_once(folio: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(600 * PAGE))
    assert read_folio_share(tmp_path / "file", Frames(folio)) == pytest.approx(1 / folio)


def test_files_that_are_empty_missing_or_hidden_tell_nothing(tmp_path: Path) -> None:
    class Hidden(System):
        def bytes_at(self, path: str, offset: int, size: int) -> bytes:
            return bytes(size) if path == "/proc/self/pagemap" else b""

    (tmp_path / "empty").touch()
    (tmp_path / "file").write_bytes(bytes(600 * PAGE))
    assert read_folio_share(tmp_path / "empty") is None
    assert read_folio_share(tmp_path / "missing") is None
    assert read_folio_share(tmp_path / "file", Hidden()) is None


def test_a_file_that_was_written_a_page_at_a_time_has_folios_of_a_page(tmp_path: Path) -> None:
    if not may_read_flags(System()):
        pytest.skip("only root can read /proc/kpageflags")
    with (tmp_path / "file").open("wb", buffering=0) as file:
        for _ in range(600):
            file.write(bytes(PAGE))
    assert read_folio_share(tmp_path / "file") == 1.0
