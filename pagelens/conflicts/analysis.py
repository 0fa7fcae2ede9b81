"""The analysis of a set of pages: which of their lines conflict, and which pages to swap."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagelens.address.pages import Pages, parse_page_size, read_pages
from pagelens.conflicts.predict import Prediction, predict
from pagelens.conflicts.socket import socket_of
from pagelens.conflicts.swaps import Swap, find_swaps
from pagelens.errors import UsageError
from pagelens.host.free_frames import read_free
from pagelens.host.process_pages import VIRTUAL_MACHINE, read_process
from pagelens.machine import Machine, load_machine
from pagelens.units import parse_size

FREE = "free"  # the pool that is this system's free memory
SCHEMA_VERSION = 1  # of to_json(); a version only adds fields


@dataclass(frozen=True, repr=False)
class Conflicts:
    """The lines of a set of pages that cannot be held at the same time, and the swaps that would help."""

    prediction: Prediction
    swaps: tuple[Swap, ...] | None = None  # None if no pool was given

    def __repr__(self) -> str:
        """Return the share of lines that do not fit, in the worst window and on average."""
        p = self.prediction
        first = p.counts[0]
        return (
            f"<Conflicts of {len(p.pages.sizes):,} pages on {p.socket.name}: {first.share:.1%} of lines "
            f"do not fit into the {first.name} at worst, {float(p.shares.mean()):.1%} on average>"
        )

    def to_json(self, lines: bool = False) -> dict[str, Any]:
        """Return everything by name; `lines` adds the addresses of lines in crowded sets.

        Sizes are in bytes, addresses are numbers, and a line has 64 B.
        """
        p = self.prediction
        result: dict[str, Any] = {
            "schema": "pagelens conflicts",
            "version": SCHEMA_VERSION,
            "machine": p.socket.name,
            "cores": p.cores,
            "held_bytes": p.held_bytes,
            "pages": len(p.pages.sizes),
            "bytes": int(p.pages.sizes.sum()),
            "frames_of": "guest" if VIRTUAL_MACHINE in p.pages.notes else "machine",
            "windows": p.windows,
            "shares": {
                "mean": float(p.shares.mean()),
                "worst": float(p.shares.max()),
                "starts": p.starts.tolist(),
                "of_each": p.shares.tolist(),
            },
            "worst_start": int(p.starts[p.worst]),
            "structures": [{**asdict(count), "share": count.share} for count in p.counts],
            "by_page": [asdict(page) for page in p.by_page],
            "swaps": None if self.swaps is None else [asdict(swap) for swap in self.swaps],
            "notes": [*p.pages.notes, *p.socket.notes],
        }
        if lines:
            result["lines"] = p.crowded_lines()
        return result


def conflicts(
    pages: Pages | str | Path | None = None,
    *,
    machine: Machine | str,
    pid: int | None = None,
    page_size: str | None = None,
    cores: int | None = None,
    held: int | str | None = None,
    pool: Pages | str | Path | None = None,
    swaps: int = 8,
    root: str | Path = "/",
) -> Conflicts:
    """Count the lines of a set of pages that cannot be held at once, by their physical addresses alone.

    Args:
        pages: the pages, or a file that lists them (docs/conflicts.md has the format).
        machine: a machine whose slices are known, its name, or a file.
        pid: a process whose live pages are taken instead of `pages`; this needs root.
        page_size: the size of the pages that files list, such as "2MiB", which is the default.
        cores: the number of cores that hold lines; all cores of a socket if None.
        held: bytes, or a size, that each L2 holds at a time; a full L2 if None.
        pool: pages that could replace some, a file that lists them, or "free" for this system's free memory.
        swaps: the most swaps to search for.
        root: the folder that holds proc/; another than "/" is a captured tree.

    Raises:
        UsageError: if not exactly one of `pages` and `pid` is given, or a value is out of range.
        Failure: if there are no such pages.

    >>> import numpy as np
    >>> from pagelens.conflicts import Pages
    >>> buffer = Pages(np.arange(12, dtype=np.uint64) << np.uint64(21), np.full(12, 1 << 21))
    >>> conflicts(buffer, machine="skx-8160").prediction.counts[0].excess
    0
    """
    if (pages is None) == (pid is None):
        raise UsageError("conflicts: give either --frames FILE or --pid PID")
    socket = socket_of(load_machine(machine) if isinstance(machine, str) else machine)
    held_bytes = parse_size(held, "--held") if isinstance(held, str) else held
    root = Path(root)
    if isinstance(pages, Pages):
        own = pages
    elif pages is not None:
        own = read_pages(Path(pages), page_size, "--frames")
    else:
        own = read_process(pid or 0, root)
    prediction = predict(socket, own, cores, held_bytes)
    if pool is None:
        return Conflicts(prediction)
    if isinstance(pool, Pages):
        others = pool
    elif pool == FREE:
        others = read_free(parse_page_size(page_size or "2MiB", "--page-size"), own, root)
    else:
        others = read_pages(Path(pool), page_size, "--pool")
    return Conflicts(prediction, find_swaps(socket, own, others, swaps, cores, held_bytes))
