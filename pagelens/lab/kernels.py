"""Finds the kernel that the guest runs: Debian's, which is fetched once and kept, or a file."""

import re
from dataclasses import dataclass
from pathlib import Path

from pagelens.errors import Failure, UsageError
from pagelens.lab import debian
from pagelens.lab.vmlinux import decompressed

DEFAULT_KERNEL = "6.1"  # Debian 12's; 6.12 is in its backports
_META_PACKAGE = "linux-image-amd64"
_VERSION = re.compile(r"\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A bootable kernel. `release` is what `uname -r` says; it is empty if a file's header does not tell."""

    release: str
    image: Path  # a bzImage
    root: Path | None = None  # the unpacked package: boot/, lib/modules/<release>/
    decompressed: Path | None = None  # the ELF file in `image`, which boots in a third of the time

    @property
    def modules(self) -> Path | None:
        """The folder of the kernel's own modules, if it came as a package."""
        folder = self.root and self.root / "lib" / "modules" / self.release
        return folder if folder and folder.is_dir() else None


def find_kernel(name: str = DEFAULT_KERNEL) -> Kernel:
    """Return the kernel of a version, such as "6.1" or "6.12", or the kernel of a file.

    A version that is not kept yet is fetched. Raises UsageError if there is no such kernel, Failure if it
    cannot be fetched.
    """
    path = Path(name)
    if path.is_file():
        return Kernel(_release_of(path), path.resolve())
    if not _VERSION.fullmatch(name):
        raise UsageError(f"--kernel {name}: it is no file and no version; name a bzImage, 6.1 or 6.12")
    kept = debian.cache_folder() / "kernels"
    with debian.locked():
        roots = [root for root in kept.glob(f"{name}.*") if root.suffix != ".partial"]
        return _unpacked(max(roots, key=_natural) if roots else _fetch(name, kept))


def _fetch(version: str, kept: Path) -> Path:
    """Fetch the kernel that Debian's metapackage of this version depends on."""
    offered = debian.versions(_META_PACKAGE)
    matching = sorted((v for v in offered if v.startswith(f"{version}.")), key=_natural)
    if not matching:
        known = ", ".join(sorted({".".join(v.split(".")[:2]) for v in offered}))
        raise UsageError(f"--kernel {version}: Debian 12 and its backports offer {known}; or name a file")
    depends = re.search(r"linux-image-(\S+)", offered[matching[-1]])
    if depends is None:
        raise Failure(f"{_META_PACKAGE} {matching[-1]} names no kernel; name one by --kernel FILE")
    kept.mkdir(parents=True, exist_ok=True)
    root = kept / depends[1]
    debian.fetch([depends[0]], root)
    return root


def _unpacked(root: Path) -> Kernel:
    image = root / "boot" / f"vmlinuz-{root.name}"
    if not image.is_file():
        raise Failure(f"{root} holds no kernel image; remove that folder, and it is fetched again")
    return Kernel(root.name, image, root, decompressed(image))


def _release_of(image: Path) -> str:
    """Return the release in a bzImage's header (Linux boot protocol: at 0x200 plus the word at 0x20e)."""
    with image.open("rb") as file:
        header = file.read(0x10000)
    if header[0x202:0x206] != b"HdrS":
        raise UsageError(f"--kernel {image}: not a Linux bzImage for x86; name a vmlinuz or bzImage file")
    start = int.from_bytes(header[0x20E:0x210], "little") + 0x200
    return header[start:].split(b"\0", 1)[0].split(b" ", 1)[0].decode("ascii", "replace")


def _natural(name: str | Path) -> list[int]:
    """Sorts 6.1.0-9 before 6.1.0-56."""
    return [int(digits) for digits in re.findall(r"\d+", Path(name).name)]
