"""Which machine is explained: the one named, or the one that this runs on."""

from dataclasses import dataclass
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.files import write_whole
from pagelens.machine import Machine, load_machine, parse_machine
from pagelens.machine.detect import System, detect
from pagelens.replay import check_replayable, why_not_replayable

FALLBACK = "cori-knl-cache"
_FILE = "machine.toml"  # of a detected machine, beside the results


@dataclass(frozen=True)
class Chosen:
    """A machine that can be replayed; `note` says which was taken where none was named."""

    machine: Machine
    note: str = ""
    name: str = ""  # for --machine, where none was named; empty for a detected one
    text: str = ""  # the file of a detected one

    def repeat(self, directory: Path) -> tuple[str, ...]:
        """What a command line needs beside the user's words to take the same machine anywhere."""
        if self.text:
            write_whole(directory / _FILE, lambda partial: partial.write_text(self.text))
            return ("--machine", str(directory / _FILE))
        return ("--machine", self.name) if self.name else ()


def choose_machine(name: str | None, system: System | None = None) -> Chosen:
    """The machine named; without a name the one of `system`, or `FALLBACK` where that is not possible.

    Raises UsageError for a name of none, and for a machine that cannot be replayed.
    """
    if name is not None:
        machine = load_machine(name)
        check_replayable(machine)
        return Chosen(machine)
    found = detect(system or System())
    text = found.to_toml()
    try:
        machine = parse_machine(text.encode(), "this machine")
        reason = why_not_replayable(machine)
    except UsageError as error:
        reason = str(error)
    if not reason:
        return Chosen(machine, f"machine: this one, {machine.title}; --machine chooses another", text=text)
    note = f"machine: {FALLBACK}, as this one ({found.title}) cannot be replayed: {reason}; --machine chooses"
    return Chosen(load_machine(FALLBACK), note, name=FALLBACK)
