"""A digest of the code that makes results, so that an edit of the model never rereads old ones."""

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

from pagelens import _core

# Rooms whose code decides an ensemble's rows. What explains and shows them may change without a rerun.
ROOMS = ("address", "accesses", "frames", "machine", "replay", "ensemble", "values")


@cache
def code_digest(*more: str) -> str:
    """Return a hash of the native library, and of the sources and data files in ROOMS and `more` rooms.

    A room may be a single module. Raises ValueError where there is no such room.
    """
    digest = hashlib.sha256(Path(_core.__file__).read_bytes())
    package = Path(str(files("pagelens")))
    for path in sorted(file for room in (*ROOMS, *more) for file in _files(package, room)):
        if path.suffix in (".py", ".toml"):
            digest.update(f"{path.relative_to(package)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _files(package: Path, room: str) -> list[Path]:
    module = package / f"{room}.py"
    if module.is_file():
        return [module]
    if not (package / room).is_dir():
        raise ValueError(f"room {room!r}: there is none in {package}")
    return list((package / room).rglob("*"))
