"""Which machine is explained: the one named, or the one that this runs on."""

from dataclasses import dataclass
from pathlib import Path

from pagelens.files import write_whole
from pagelens.machine import Machine, load_machine, parse_machine
from pagelens.machine.detect import System, detect

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


def choose_machine(name: str | None, system: System | None = None) -> Chosen:
    """The machine named; without a name the one of `system`. Raises UsageError for a name of none."""
    if name is not None:
        return Chosen(load_machine(name))
    found = detect(system or System())
    text = found.to_toml()
    machine = parse_machine(text.encode(), "this machine")
    return Chosen(machine, f"machine: this one, {machine.title}; --machine chooses another", text)
