"""The preload library and its settings. preload/settings.h is the counterpart."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pagelens import _core
from pagelens.accesses.preloading import preloaded
from pagelens.errors import Failure
from pagelens.run.thread_binding import binding_variables

LARGE = 128 << 10  # glibc's DEFAULT_MMAP_THRESHOLD: from there on it maps blocks by themselves
LEAST_LARGE = 4096
SMALL_BYTES, HUGE_BYTES = 4096, 2 << 20  # of pages
MOST_CACHE = 1 << 40
LEAST_PERIOD, MOST_PERIOD = 128, 1 << 30

_PLAN = "PAGELENS_PLAN"
# Small blocks are in glibc's heap. Since version 2.35 this word puts it on transparent huge pages.
_TUNABLES, _TUNABLE, _ADVISED = "GLIBC_TUNABLES", "glibc.malloc.hugetlb", "1"


class Pages(StrEnum):
    """The kind of pages for large blocks."""

    GIGANTIC = "1g"
    HUGE = "2m"
    TRANSPARENT = "thp"

    @property
    def bytes(self) -> int:
        """The bytes of a page."""
        return 1 << 30 if self is Pages.GIGANTIC else HUGE_BYTES


@dataclass(frozen=True)
class Preload:
    """What the library does. The defaults mean nothing."""

    pages: Pages | None = None
    large: int = LARGE  # bytes from which a block is large
    period: int = 0  # bytes over which blocks are spread; 0: they are not
    cache: int = 0  # bytes of the memory-side cache that frames are chosen for; 0: they are not
    guest: bool = False  # frames are those of a virtual machine
    report: bool = False
    json: bool = False
    output: str = ""  # file of the report; empty: stderr
    plan: Path | None = None  # pagelens/run/plan_file.py
    threads: str | None = None  # how those of OpenMP are bound (pagelens/run/thread_binding.py)

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for the program that this process will become. Raises Failure."""
        settings: dict[str, object] = {
            "main": os.getpid(),
            "pages": self.pages or "4k",
            "large": self.large,
            "period": self.period,
            "cache": self.cache,
            "guest": int(self.guest),
            "json": int(self.json),
        }
        if self.report:  # last: the path may have commas
            settings["report"] = os.path.abspath(self.output) if self.output else ""
        changed = {
            "PAGELENS_RUN": ",".join(f"{key}={value}" for key, value in settings.items()),
            _PLAN: str(self.plan) if self.plan else "",
            "LD_PRELOAD": preloaded(before, library()),
        }
        tunables = before.get(_TUNABLES, "")
        if self.pages is not None and _TUNABLE not in tunables:
            changed[_TUNABLES] = ":".join(filter(None, [tunables, f"{_TUNABLE}={_ADVISED}"]))
        changed |= binding_variables(self.threads, before)
        return {name: value for name, value in {**before, **changed}.items() if value or name != _PLAN}


def library() -> Path:
    """Return the library of this package. Raises Failure."""
    path = Path(_core.__file__).parent / "lib" / "libpagelens_run.so"
    if not path.is_file():
        raise Failure(f"{path} is missing; install pagelens again: pip install .")
    if any(character in str(path) for character in " :"):
        raise Failure(f"{path}: LD_PRELOAD takes no path with blanks or colons; install pagelens elsewhere")
    return path
