"""Which machine is explained: the one named, or the one that this runs on."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pagelens.errors import UsageError
from pagelens.files import write_whole
from pagelens.machine.reader import load_machine, parse_machine
from pagelens.machine.schema import Machine

if TYPE_CHECKING:
    from pagelens.host.system import System

_FILE = "machine.toml"  # of a detected machine, beside the results


@dataclass(frozen=True)
class Chosen:
    """A machine; `note` says which was taken where none was named."""

    machine: Machine
    note: str = ""
    text: str = ""  # the file of a detected one

    def repeat(self, directory: Path) -> tuple[str, ...]:
        """What a command line needs beside the user's words to take the same machine anywhere."""
        if self.text:
            write_whole(directory / _FILE, lambda partial: partial.write_text(self.text))
            return ("--machine", str(directory / _FILE))
        return ()


def choose_machine(name: str | None, system: "System | None" = None) -> Chosen:
    """The machine named; without a name the one of `system`. Raises UsageError for a name of none."""
    if name is not None:
        return Chosen(load_machine(name))
    from pagelens.host.system import System  # what a named machine does not need
    from pagelens.machine.detect import detect

    text = detect(system or System()).to_toml()
    machine = parse_machine(text.encode(), "this machine")
    note = f"machine: this one, {machine.title}"
    kept = measured_file()
    if system is None and kept.exists():
        try:
            measured_text = kept.read_text()
            measured = parse_machine(measured_text.encode(), str(kept))
        except (OSError, UnicodeError, UsageError) as error:
            return Chosen(machine, f"{note}; what was measured of it cannot be used: {error}", text)
        if _same(measured, machine):
            return Chosen(measured, f"{note}, as measured ({kept}); --machine chooses another", measured_text)
        note += f" ({kept} is of another)"
    advice = "; `pagelens machines detect --measure` measures what is assumed of it" if system is None else ""
    return Chosen(machine, f"{note}; --machine chooses another{advice}", text)


def measured_file() -> Path:
    """Where `pagelens machines detect --measure` keeps the file of this machine."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "pagelens" / "this-machine.toml"


def _same(measured: Machine, machine: Machine) -> bool:
    """Whether both are files of one machine: what is read of it, and never measured, is equal."""
    first, second = (
        (of.title, of.mode, of.cores.count.value, of.l1.size.value, of.l2.size.value, of.l3 is not None)
        for of in (measured, machine)
    )
    return first == second
