"""Reads machine files, by name or path."""

import os
from importlib import resources
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.machine.schema import IDEAL_SUFFIX, Machine
from pagelens.machine.toml_file import parse_toml, read_bytes
from pagelens.names import nearest


def list_machines() -> dict[str, Path]:
    """Name -> file of the machines that come with pagelens."""
    return {path.stem: path for path in sorted(machine_directory().glob("*.toml"))}


def machine_directory() -> Path:
    """Where the machine files lie: in the wheel beside the package, in a checkout at its root."""
    installed = Path(str(resources.files("pagelens"))) / "machines"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "machines"


def load_machine(name_or_path: str | os.PathLike[str]) -> Machine:
    """The machine of that name, or of that TOML file (anything with a slash or the suffix .toml).

    NAME-ideal is the ideal twin of a machine in cache mode.
    """
    text = os.fspath(name_or_path)
    if "/" in text or text.endswith(".toml"):
        return read_machine_file(Path(text))
    known = list_machines()
    original = text.removesuffix(IDEAL_SUFFIX)
    if original != text and original in known:
        machine = read_machine_file(known[original])
        if machine.mode == "cache":
            return machine.ideal_twin()
    if text not in known:
        raise UsageError(
            f"machine: '{text}' is unknown; did you mean {nearest(text, known)}? A file's name ends in .toml"
        )
    return read_machine_file(known[text])


def read_machine_file(path: Path) -> Machine:
    """Reads one machine file."""
    return parse_machine(read_bytes(path, "machine"), str(path))


def parse_machine(raw: bytes, where: str) -> Machine:
    """The machine stated by a file's bytes; `where` names the file in errors."""
    return parse_toml(Machine, raw, where, "machines/cori-knl-cache.toml")
