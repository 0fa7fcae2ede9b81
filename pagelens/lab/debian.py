"""Fetches Debian packages with apt into a cache folder, and unpacks them without installing them.

apt gets its own lists and sources. So root is not needed, the machine's configuration stays as it is, and any
Debian can fetch a kernel of Debian 12 or its backports.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pagelens.errors import Failure

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_MIRROR = "http://deb.debian.org"
_SUITES = (
    ("debian", "bookworm"),
    ("debian-security", "bookworm-security"),
    ("debian", "bookworm-backports"),
)


def cache_folder() -> Path:
    """Return the folder for fetched packages: $XDG_CACHE_HOME/pagelens, or ~/.cache/pagelens."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pagelens"


@contextmanager
def locked() -> Iterator[None]:
    """Let one process at a time fetch. The others then find what it kept."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def versions(package: str) -> dict[str, str]:
    """Return the versions of a package in Debian 12 and its backports, each with its `Depends` line."""
    known: dict[str, str] = {}
    for stanza in _apt("apt-cache", "show", package).split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
        if fields.get("Package") == package:
            known[fields["Version"]] = fields.get("Depends", "")
    return known


def fetch(packages: Sequence[str], folder: Path) -> None:
    """Unpack packages (`name` or `name=version`) into `folder`, which appears when all are complete.

    Raises Failure if the distribution or its mirror does not have them.
    """
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    archives = partial / "archives"
    archives.mkdir(parents=True)
    try:
        _apt("apt-get", "-q", "download", *packages, folder=archives)
        for archive in sorted(archives.glob("*.deb")):
            _checked(["dpkg-deb", "-x", str(archive), str(partial)])
        shutil.rmtree(archives)
        if not folder.exists():
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _apt(command: str, *arguments: str, folder: Path | None = None) -> str:
    return _checked([command, *_apt_options(), *arguments], folder)


@cache
def _apt_options() -> tuple[str, ...]:
    """Return the options that keep apt to our folder. Its lists are renewed once per process."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Failure("apt-get and dpkg-deb are not in PATH; name a kernel image by --kernel FILE")
    if not Path(_KEYRING).exists():
        raise Failure(f"{_KEYRING} is missing; install Debian's package debian-archive-keyring")
    folder = cache_folder() / "apt"
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    lines = (f"deb [signed-by={_KEYRING}] {_MIRROR}/{archive} {suite} main\n" for archive, suite in _SUITES)
    sources.write_text("".join(lines))
    options = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    words = tuple(word for name, value in options.items() for word in ("-o", f"{name}={value}"))
    _checked(["apt-get", *words, "-q", "update"])
    return words


def _checked(command: Sequence[str], folder: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise Failure(f"{command[0]} failed: {reason}; check the network, or name a kernel by --kernel FILE")
    return done.stdout
