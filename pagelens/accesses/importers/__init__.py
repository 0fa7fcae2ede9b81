"""The importers. Each module of this folder is one, and defines it as `IMPORTER` (docs/extending.md).

An importer is found by the name of its file: `lackey.py` is the importer `lackey`.
"""

from importlib import import_module
from pkgutil import iter_modules

from pagelens.accesses.importer import Importer
from pagelens.errors import UsageError
from pagelens.spelling import nearest


def importer_names() -> list[str]:
    """Return the names of all importers, without importing any of them."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def find_importer(name: str) -> Importer:
    """Return the importer of that name. Raises UsageError, with the nearest name, if there is none."""
    names = importer_names()
    if name not in names:
        raise UsageError(f"format: there is no '{name}'; did you mean {nearest(name, names)}?")
    importer: Importer = import_module(f"{__name__}.{name.replace('-', '_')}").IMPORTER
    return importer
