"""Makes the guest's root file system: a cpio archive with busybox, the guest agent, and what a lab needs.

The kernel unpacks it into memory at boot, so no disk, driver or file system is needed. The format is "newc"
(Linux: Documentation/driver-api/early-userspace/buffer-format.rst).
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pagelens.errors import Failure, UsageError

Content = bytes | str | Path  # text is taken as UTF-8, a path is a file of this machine

_FOLDERS = ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "root")
_EXECUTABLE = 0o755


@dataclass
class Initramfs:
    """The files of the guest, by their absolute names there."""

    files: dict[PurePosixPath, tuple[bytes, int]] = field(default_factory=dict)  # content, permissions

    def add(self, name: str, content: Content, mode: int | None = None) -> None:
        """Add one file. The permissions of a path are kept unless `mode` says otherwise."""
        if isinstance(content, Path):
            try:
                kept = stat.S_IMODE(content.stat().st_mode)
                data = content.read_bytes()
            except OSError as error:
                raise UsageError(f"{content}: {error.strerror}; name a file that can be read") from None
        else:
            kept = 0o644
            data = content.encode() if isinstance(content, str) else content
        self.files[_guest_path(name)] = (data, kept if mode is None else mode)

    def add_program(self, name: str, program: Path) -> None:
        """Add an executable under `name`, and the shared libraries that it loads under their own names."""
        self.add(name, program, _EXECUTABLE)
        for library in libraries(program):
            self.add(str(library), library.resolve(), _EXECUTABLE)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(len(data) for data, _ in self.files.values())

    def archive(self) -> bytes:
        """Return the archive that the kernel unpacks."""
        folders = {PurePosixPath("/") / name for name in _FOLDERS}
        for path in self.files:
            folders.update(path.parents)
        folders.discard(PurePosixPath("/"))
        # Device nodes that exist before /dev is mounted: the kernel opens the console for init.
        entries = [_entry(path, b"", stat.S_IFDIR | 0o755) for path in sorted(folders)]
        entries.append(_entry(PurePosixPath("/dev/console"), b"", stat.S_IFCHR | 0o600, device=(5, 1)))
        entries += [_entry(path, data, stat.S_IFREG | mode) for path, (data, mode) in self.files.items()]
        entries.append(_entry(PurePosixPath("/TRAILER!!!"), b"", 0))
        return b"".join(entries)


def base_initramfs(agent: Path, files: Mapping[str, Content]) -> Initramfs:
    """Return busybox, the agent as init, and `files`."""
    found = shutil.which("busybox")
    if found is None or libraries(Path(found)):
        raise Failure(
            "a static busybox is not in PATH; install Debian's package: apt-get install busybox-static"
        )
    image = Initramfs()
    image.add("/bin/busybox", Path(found), _EXECUTABLE)
    image.add("/init", agent, _EXECUTABLE)
    for name, content in files.items():
        image.add(name, content)
    return image


def libraries(program: Path) -> list[Path]:
    """Return the shared libraries of a program, with the loader; none for a static program."""
    loader = shutil.which("ldd")
    if loader is None:
        raise Failure("ldd is not in PATH; install Debian's package: apt-get install libc-bin")
    listed = subprocess.run(
        [loader, program], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    ).stdout
    missing = [line.split()[0] for line in listed.splitlines() if "not found" in line]
    if missing:
        raise UsageError(f"{program}: its library {missing[0]} is not found; set LD_LIBRARY_PATH")
    words = (line.partition("=>")[2] or line for line in listed.splitlines())
    return [Path(name) for name in (w.split(" (")[0].strip() for w in words) if name.startswith("/")]


def _guest_path(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if not path.is_absolute() or ".." in path.parts:
        raise UsageError(f"file {name}: not an absolute path in the guest; write it as /lab/{path.name}")
    return path


def _entry(path: PurePosixPath, data: bytes, mode: int, device: tuple[int, int] = (0, 0)) -> bytes:
    name = str(path.relative_to("/")).encode() + b"\0"
    # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % value for value in fields)
    return _padded(header + name) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
