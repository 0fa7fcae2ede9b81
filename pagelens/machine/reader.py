"""Reads machine files, by name or path, and the files that they are based on."""

import os
from dataclasses import replace
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.machine.schema import IDEAL_SUFFIX, Machine
from pagelens.spelling import resembling
from pagelens.values.directory import list_files
from pagelens.values.toml_file import Document, read_bytes, read_document, validate

EXAMPLE = "docs/machine-schema.md"
PARTS = ("family", "dram", "tlb", "io")  # folders of files that state some sections of a machine
DEEPEST = 8  # files over one another
_OWN = ("name", "title", "base")  # what a file does not take over from those it is based on


def list_machines() -> dict[str, Path]:
    """Name -> file of the machines that come with pagelens."""
    return list_files("")


def list_parts() -> dict[str, Path]:
    """Return the files of what machines have in common, by name: "family/skylake-sp", "dram/ddr4-2400"."""
    return {f"{folder}/{name}": path for folder in PARTS for name, path in list_files(folder).items()}


def load_machine(name_or_path: str | os.PathLike[str]) -> Machine:
    """Return the machine of that name, or of that TOML file (anything with a slash or the suffix .toml).

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
        near = resembling(text, known)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise UsageError(
            f"machine: '{text}' is unknown; {hint}`pagelens machines` lists the names; a file ends in .toml"
        )
    return read_machine_file(known[text])


def read_machine_file(path: Path) -> Machine:
    """Read one machine file."""
    return parse_machine(read_bytes(path, "machine"), str(path))


def parse_machine(raw: bytes, where: str) -> Machine:
    """Return the machine that a file's bytes state. `where` names the file in errors, and its folder."""
    return validate(Machine, layers_of(read_document(raw, where)), EXAMPLE)


def layers_of(document: Document, above: tuple[str, ...] = ()) -> list[Document]:
    """Return the file and those it is based on, each before the file that changes it.

    `above` are the files that are based on this one.
    """
    above = (*above, document.where)
    layers = [document]
    for path in reversed(_bases(document)):
        if str(path) in above or len(above) == DEEPEST:
            raise UsageError(
                f"{document.at('base')}: 'base': {' > '.join([*above, str(path)])}: at most {DEEPEST} files "
                "over one another, none over itself"
            )
        base = read_document(read_bytes(path, f"{document.at('base')}: 'base'"), str(path))
        if base.data.get("schema") != 1:
            raise UsageError(f"{base.at('schema')}: 'schema' must be 1, in a file that others are based on")
        for layer in layers_of(base, above):
            inherited = {key: value for key, value in layer.data.items() if key not in _OWN}
            layers.append(replace(layer, data=inherited))
    return layers


def _bases(document: Document) -> list[Path]:
    """Return the files that `base` names, in the order stated."""
    stated = document.data.get("base", [])
    known = list_machines() | list_parts() if stated else {}
    paths = []
    for name in stated if isinstance(stated, list) else [stated]:
        if isinstance(name, str) and name in known:
            paths.append(known[name])
        elif isinstance(name, str) and name.endswith(".toml") and name.isprintable():
            paths.append(Path(document.where).parent / name)
        else:
            near = resembling(str(name)[:80], known)  # all of them would be a page
            hint = f"one of {', '.join(near)}" if near else "one of `pagelens machines`"
            raise UsageError(f"{document.at('base')}: 'base' (is {name!r:.80}): name a .toml file, or {hint}")
    return paths
