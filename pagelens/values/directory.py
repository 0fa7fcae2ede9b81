"""Finds the machine files, and the files of their parts: machines/hashes/, machines/dram/ and others."""

import os
from functools import cache
from importlib import resources
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.spelling import nearest


@cache
def machine_directory() -> Path:
    """Return the folder: beside the package in a wheel, at the root of a checkout."""
    installed = Path(str(resources.files("pagelens"))) / "machines"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "machines"


def list_files(folder: str) -> dict[str, Path]:
    """Name -> file of that folder of machines/, by name."""
    directory = machine_directory() / folder
    names = (name for name in sorted(os.listdir(directory)) if name.endswith(".toml"))
    return {name.removesuffix(".toml"): directory / name for name in names}


def known_file(kind: str, folder: str, name: str) -> Path:
    """Return the file of that name. Raises UsageError. `kind` is what the files state, for errors."""
    known = list_files(folder)
    if name not in known:
        raise UsageError(f"{kind}: '{name}' is unknown; did you mean {nearest(name, known)}?")
    return known[name]


def named_file(kind: str, folder: str, name_or_path: str | os.PathLike[str]) -> Path:
    """Return the file of that name, or the TOML file itself (anything with a slash or the suffix .toml)."""
    text = os.fspath(name_or_path)
    return Path(text) if "/" in text or text.endswith(".toml") else known_file(kind, folder, text)
