"""Kernels as they are kept: what a bzImage holds, decompressed."""

import lzma
from pathlib import Path

import pyarrow as pa
import pytest

from pagelens.lab.kernels import find_kernel
from pagelens.lab.vmlinux import decompressed

BARE = b"\x7fELF" + bytes(range(256)) * 40
ELF = BARE + b"\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0" + bytes(8)  # the note of a PVH entry


def image_of(payload: bytes, size: int, folder: Path) -> Path:
    """A bzImage of two sectors of setup, in which the payload begins 16 bytes after these."""
    header = bytearray(3 * 512 + 16)
    payload += size.to_bytes(4, "little")
    header[0x1F1] = 2
    header[0x248:0x250] = (16).to_bytes(4, "little") + len(payload).to_bytes(4, "little")
    image = folder / "vmlinuz-1"
    image.write_bytes(header + payload + b"what follows")
    return image


@pytest.mark.parametrize(
    "payload",
    [lzma.compress(ELF, check=lzma.CHECK_CRC32), pa.compress(ELF, codec="zstd", asbytes=True)],
    ids=["xz", "zstd"],
)
def test_a_kernel_is_decompressed_once(payload: bytes, tmp_path: Path) -> None:
    image = image_of(payload, len(ELF), tmp_path)
    found = decompressed(image)
    assert found == tmp_path / "vmlinux-1"
    assert found.read_bytes() == ELF
    image.write_bytes(b"")
    assert decompressed(image) == found


@pytest.mark.parametrize(
    ("payload", "size"),
    [
        (lzma.compress(ELF), len(ELF) + 1),
        (lzma.compress(ELF)[:100], len(ELF)),
        (lzma.compress(b"no ELF"), 6),
        (lzma.compress(BARE), len(BARE)),
        (pa.compress(ELF, codec="zstd", asbytes=True)[:100], len(ELF)),
        (pa.compress(ELF, codec="gzip", asbytes=True), len(ELF)),
        (b"", 0),
    ],
)
def test_what_is_damaged_or_of_another_kind_is_left_as_it_is(
    payload: bytes, size: int, tmp_path: Path
) -> None:
    image = image_of(payload, size, tmp_path)
    assert decompressed(image) is None
    assert list(tmp_path.iterdir()) == [image]


@pytest.mark.parametrize("version", ["6.1", "6.12"])
def test_debians_kernels_are_kept_decompressed(version: str) -> None:
    kernel = find_kernel(version)
    assert kernel.decompressed is not None
    assert kernel.decompressed.read_bytes()[:4] == b"\x7fELF"
