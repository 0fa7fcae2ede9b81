"""The studies. Each module of this folder is one, and defines it as `STUDY` (docs/reproduce.md).

A study is found by the name of its file: `snoop_filter.py` is the study `snoop-filter`.
"""

from importlib import import_module
from pkgutil import iter_modules

from pagelens.errors import UsageError
from pagelens.reproduce.study import Study
from pagelens.spelling import nearest

# The page begins with these, by subject. Other studies follow by name.
_FIRST = (
    "snoop-filter",
    "dgemm",
    "page-walks",
    "red-storm",
    "hpccg",
    "cori-minife",
    "cori-stream",
    "periodic-sort",
    "intel-colouring",
    "two-level",
    "placement",
    "johnny-cache",
    "xeon-max",
)


def study_names() -> list[str]:
    """Return the names of all studies in the order of the page, without importing any of them."""
    found = {module.name.replace("_", "-") for module in iter_modules(__path__)}
    return [*(name for name in _FIRST if name in found), *sorted(found.difference(_FIRST))]


def find_study(name: str) -> Study:
    """Return the study of that name. Raises UsageError, with the nearest name, if there is none."""
    names = study_names()
    if name not in names:
        raise UsageError(f"study: there is no '{name}'; did you mean {nearest(name, names)}?")
    study: Study = import_module(f"{__name__}.{name.replace('-', '_')}").STUDY
    return study
