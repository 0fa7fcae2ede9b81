"""Chooses the machine that is explained: the one that the user names, or the one that pagelens runs on."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pagelens.errors import UsageError
from pagelens.files import write_whole
from pagelens.machine.reader import load_machine, parse_machine
from pagelens.machine.schema import Machine

if TYPE_CHECKING:
    from pagelens.host.system import System

HERE = "this-machine"  # as its file calls the detected machine
MACHINE_FILE = "machine.toml"  # of a detected machine, beside the results


@dataclass(frozen=True)
class Chosen:
    """A machine. If none was named, `note` says which one was taken."""

    machine: Machine
    note: str = ""
    text: str = ""  # the file of a detected one

    @property
    def is_here(self) -> bool:
        """Whether it is the computer that pagelens runs on."""
        return bool(self.text)

    def with_cores(self, count: int) -> "Chosen":
        """Return this computer with so many cores. Raises UsageError if its caches do not allow them."""
        machine, cores = self.machine.with_values({"cores.count": count}), self.machine.cores.count.value
        stated = re.compile(r"^(\[cores\]\n[^\[]*?count = )\{.*\}$", re.MULTILINE)
        of_all = f'{{value = {count}, assumed = "a core for each thread; the computer has {cores}"}}'
        return replace(self, machine=machine, text=stated.sub(rf"\g<1>{of_all}", self.text))

    def repeat(self, directory: Path) -> tuple[str, ...]:
        """Return the arguments that, added to the user's command line, take the same machine anywhere."""
        if self.text:
            write_whole(directory / MACHINE_FILE, lambda partial: partial.write_text(self.text))
            return ("--machine", str(directory / MACHINE_FILE))
        return ()


def choose_machine(name: str | None, system: "System | None" = None) -> Chosen:
    """Return the named machine, or that of `system` if the name is None or HERE.

    Raises UsageError for an unknown name.
    """
    if name not in (None, HERE):
        return Chosen(load_machine(name))
    from pagelens.host.system import System  # what a named machine does not need
    from pagelens.machine.detect import detect_whole

    text = detect_whole(system or System()).to_toml()
    machine = parse_machine(text.encode(), "this machine")
    note = f"machine: this one, {machine.title}"
    kept = measured_file()
    if system is None:
        try:
            measured_text = kept.read_text()
            measured = parse_machine(measured_text.encode(), str(kept))
        except FileNotFoundError:
            pass
        except (OSError, UnicodeError, UsageError) as error:
            return Chosen(machine, f"{note}; what was measured of it cannot be used: {error}", text)
        else:
            if _same(measured, machine):
                measured_note = f"{note}, as measured ({kept}); --machine chooses another"
                return Chosen(measured, measured_note, measured_text)
            note += f" ({kept} is of another)"
    advice = "; `pagelens machines detect --measure` measures what is assumed of it" if system is None else ""
    return Chosen(machine, f"{note}; --machine chooses another{advice}", text)


def measured_file() -> Path:
    """Return the file in which `pagelens machines detect --measure` keeps this machine."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "pagelens" / "this-machine.toml"


def _same(measured: Machine, machine: Machine) -> bool:
    """Return whether both files describe one machine.

    They do if the values that are read from the machine, and never measured, are equal.
    """
    first, second = (
        (of.title, of.mode, of.cores.count.value, of.l1.size.value, of.l2.size.value, of.l3 is not None)
        for of in (measured, machine)
    )
    return first == second
