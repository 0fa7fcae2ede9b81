"""Builds kernel modules for guests, against Debian's headers, which are fetched and kept like the kernels."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from pagelens.errors import Failure, UsageError
from pagelens.lab import debian
from pagelens.lab.kernels import Kernel

_BUILT = re.compile(r"obj-m\s*[:+]?=\s*(\S+)\.o")
_SOURCES = ("*.c", "*.h", "Kbuild")


def build_module(sources: Path, kernel: Kernel) -> Path:
    """Return the .ko that a folder's Kbuild file names, built once for one kernel and these sources.

    Raises UsageError for a kernel without a headers package, and Failure with the compiler's words.
    """
    name = _BUILT.search((sources / "Kbuild").read_text())
    if name is None:
        raise Failure(f"{sources}/Kbuild names no module: it has no line obj-m := NAME.o")
    with debian.locked():
        folder = debian.cache_folder() / "modules" / kernel.release / f"{name[1]}-{_digest(sources)}"
        module = folder / f"{name[1]}.ko"
        if not module.exists():
            _compile(sources, _headers(kernel), folder, module)
    return module


def _digest(sources: Path) -> str:
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for file in sorted(sources.glob(pattern)):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _headers(kernel: Kernel) -> Path:
    """Return the folder that `make -C` builds modules in."""
    if kernel.root is None:
        raise UsageError(
            f"--kernel {kernel.image}: modules are built for Debian's kernels only; name 6.1 or 6.12"
        )
    root = debian.cache_folder() / "headers" / kernel.release
    package = f"linux-headers-{kernel.release}"
    folder = root / "usr" / "src" / package
    if not root.exists():
        depends = " ".join(debian.versions(package).values())
        others = re.findall(r"linux-(?:headers|kbuild|compiler)-[^\s,]+", depends)
        if not others:
            raise Failure(
                f"Debian offers no {package} any more; remove {kernel.root} to fetch a newer kernel"
            )
        debian.fetch([package, *others], root)
    # Debian's package names the common part by its place in an installed system.
    common = next(folder.parent.glob("linux-headers-*-common"))
    (folder / "Makefile").write_text(f"include {common}/Makefile\n")
    return folder


def _compile(sources: Path, headers: Path, folder: Path, module: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for pattern in _SOURCES:
        for file in sources.glob(pattern):
            shutil.copy(file, partial)
    # Type information for BPF would need pahole, so the module has none.
    command = ["make", "-s", "-C", str(headers), f"M={partial}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise Failure(f"{module.name} does not build for this kernel: {'; '.join(errors[:3])}")
    partial.rename(folder)
