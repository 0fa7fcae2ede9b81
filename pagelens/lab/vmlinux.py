"""Decompresses the kernel that a bzImage holds, because a guest would spend most of its boot on that.

Field offsets are those of Linux's Documentation/x86/boot.rst.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pyarrow as pa

from pagelens.errors import Failure
from pagelens.files import write_whole

_SECTOR = 512
_SETUP_SECTORS, _PAYLOAD_OFFSET, _PAYLOAD_LENGTH = 0x1F1, 0x248, 0x24C
_XZ, _ZSTD, _ELF = b"\xfd7zXZ\0", b"(\xb5/\xfd", b"\x7fELF"
_PVH_NOTE = (18).to_bytes(4, "little") + b"Xen\0"  # XEN_ELFNOTE_PHYS32_ENTRY: where QEMU enters it
_SIZE_BYTES = 4  # behind the payload: how large it becomes


def decompressed(image: Path) -> Path | None:
    """Return the ELF file `vmlinux-...` beside Debian's `vmlinuz-...`. It is made if it is not there.

    QEMU boots it by its PVH entry. Returns None if the kernel has no such entry, if its payload is damaged or
    not compressed as Debian's are (XZ, Zstandard), or if there is no room for it. The bzImage boots, too.
    """
    found = image.with_name(image.name.replace("vmlinuz", "vmlinux"))
    if not found.exists():
        kernel = _payload(image.read_bytes())
        if kernel is None:
            return None
        try:
            write_whole(found, lambda path: path.write_bytes(kernel))
        except Failure:
            return None
    return found


def _payload(image: bytes) -> bytes | None:
    def word(at: int) -> int:
        return int.from_bytes(image[at : at + 4], "little")

    begin = (image[_SETUP_SECTORS] + 1) * _SECTOR + word(_PAYLOAD_OFFSET)
    packed = image[begin : begin + word(_PAYLOAD_LENGTH)]
    size = int.from_bytes(packed[-_SIZE_BYTES:], "little")
    try:
        if packed.startswith(_XZ):
            kernel = lzma.LZMADecompressor().decompress(packed)
        elif packed.startswith(_ZSTD):
            kernel = pa.decompress(packed[:-_SIZE_BYTES], size, codec="zstd", asbytes=True)
        else:
            return None
    except (lzma.LZMAError, OSError):
        return None
    whole = kernel.startswith(_ELF) and len(kernel) == size
    return kernel if whole and _PVH_NOTE in kernel else None
