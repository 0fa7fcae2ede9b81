"""Writes docs/results/snoop-filter.md: the test of snoop filters, counted and simulated; a figure."""

import argparse
import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from numpy.typing import NDArray
from results import write_table

from pagelens.conflicts import Socket, socket_of
from pagelens.conflicts.predict import excess_shares
from pagelens.conflicts.study import (
    LARGE_BYTES,
    contiguous,
    contiguous_windows,
    evictions,
    random_pages,
    random_window,
)
from pagelens.machine import load_machine
from pagelens.report.drawing import STYLE
from pagelens.reproduce.studies.snoop_filter import (
    CLEAN_MIB,
    MIB,
    PERIOD_MIB,
    SLICES_24,
    buffer_mib,
    by_offset,
)
from pagelens.statistics import spearman

REFERENCE_DRAWS = 100  # assumed of the reference means; see the page
SIMULATED_STEP, SIMULATED_DRAWS = 11, 12  # placements that are simulated: pages of a period, random draws


@dataclass(frozen=True)
class Reference:
    """Shares of lines beyond 12 in their set."""

    machine: str
    mean: float  # contiguous
    most: float
    packed: tuple[float, float]  # random 2 MiB pages, a range where one is given
    own: float | None = None


REFERENCES = (
    Reference("skx-6132", 0, 0, (0, 0)),
    Reference("skx-6142", 0, 0, (0, 0)),
    Reference("skx-6150", 0.012, 0.105, (0.013, 0.013)),
    Reference("skx-6148", 0.007, 0.052, (0.011, 0.011)),
    Reference("skx-6152", 0.001, 0.006, (0.003, 0.003)),
    Reference("skx-8160", 0.068, 0.197, (0.023, 0.029), 0.011),
    Reference("skx-8170", 0.0001, 0.0007, (0.004, 0.004)),
    Reference("skx-8180", 0, 0, (0.003, 0.003)),
    Reference("stampede2-knl", 0.027, 0.085, (0.013, 0.013)),
)


def short(share: float) -> str:
    """Writes a share with four places, such as ".0679"."""
    return "0" if share == 0 else f"{share:.4f}".lstrip("0")


def as_stated(share: float) -> str:
    """Writes a share with the places of the reference, such as ".068"."""
    return f"{share:f}".strip("0") if share else "0"


def distance(shares: NDArray[np.float64], low: float, high: float) -> str:
    """How far the mean lies from a reference one, in standard errors of their difference."""
    mean, deviation = float(shares.mean()), float(shares.std(ddof=1))
    error = deviation * math.sqrt(1 / len(shares) + 1 / REFERENCE_DRAWS)
    away = max(low - mean, mean - high, 0)
    return "0" if away == 0 else f"{away / error:.1f}" if error else "none to compare with"


def with_error(shares: NDArray[np.float64]) -> str:
    """Mean and standard error."""
    return f"{short(float(shares.mean()))} ± {short(float(shares.std(ddof=1)) / math.sqrt(len(shares)))}"


def row(reference: Reference, draws: int, seed: int) -> list[str]:
    """One processor: reference and obtained side by side."""
    socket = socket_of(load_machine(reference.machine))
    shares = contiguous(socket)
    packed, own = (random_pages(socket, packing, draws, seed) for packing in ("packed", "own"))
    low, high = reference.packed
    stated = as_stated(low) if low == high else f"{as_stated(low)}-{as_stated(high)}"
    return [
        f"`{reference.machine}`",
        str(socket.shared[0].slices.values),
        str(socket.l2s),
        f"{as_stated(reference.mean)} / {as_stated(reference.most)}",
        mean_and_worst(shares),
        stated if reference.own is None else f"{stated}; own page {as_stated(reference.own)}",
        with_error(packed),
        distance(packed, low, high),
        with_error(own),
    ]


def both_ways(machine: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Static shares of some placements, contiguous and random, and the evictions of a simulation of each."""
    model = load_machine(machine)
    socket = socket_of(model)
    contiguous_ = contiguous_windows(socket)
    placements = [
        (contiguous_, number) for number in range(0, PERIOD_MIB * MIB // LARGE_BYTES, SIMULATED_STEP)
    ]
    placements += [(random_window(socket, "packed", draw, seed), 0) for draw in range(SIMULATED_DRAWS)]
    shares = [excess_shares(socket, windows, [number])[0] for windows, number in placements]
    found = [evictions(model, windows[number]) for windows, number in placements]
    return np.array(shares), np.array(found)


def simulation(seed: int) -> str:
    """The static count beside the simulation, by processor, and how far their orders agree."""
    every = {reference.machine: both_ways(reference.machine, seed) for reference in REFERENCES}
    count = len(next(iter(every.values()))[0])
    together = list(every.values())
    every["all"] = (
        np.concatenate([both[0] for both in together]),
        np.concatenate([both[1] for both in together]),
    )
    lines = [
        f"| {machine} | {mean_and_worst(shares)} | {mean_and_worst(found)} | {in_order(shares, found)} |"
        for machine, (shares, found) in every.items()
    ]
    shares, found = every["all"]
    return f"""
## The same lines through simulated caches

One core for each L2 reads its lines in turn, over and over. The caches are those of `explain`
(docs/caches.md): L2, snoop filter, L3. The table has the snoop filter's evictions for each line that is read,
once all lines have been read before (counted). It covers {count} placements: a contiguous buffer at every
{SIMULATED_STEP * LARGE_BYTES // MIB} MiB of {PERIOD_MIB} MiB, and {SIMULATED_DRAWS} packed draws. If more \
lines than a set has ways are read in turn, they
push each other out one after the other. All of them miss, not only those beyond the ways. So the simulation
has more conflicts than the static count, but puts the placements in the same order.

| machine | static, mean / worst | evictions a line, mean / worst | rank correlation |
|---|---|---|---:|
{chr(10).join(lines)}

Where the static count has no conflicts, the simulation has at most \
{short(float(found[shares == 0].max()))} evictions a line.
"""


def mean_and_worst(values: NDArray[np.float64]) -> str:
    """Writes two shares, such as ".0679 / .1966"."""
    return f"{short(float(values.mean()))} / {short(float(values.max()))}"


def in_order(shares: NDArray[np.float64], found: NDArray[np.float64]) -> str:
    """Spearman's rank correlation."""
    correlation = spearman(shares, found)
    return "no conflicts" if correlation is None else f"{correlation:.3f}"


def introduction(draws: int, seed: int) -> str:
    """Says what the table shows and how it was made."""
    command = shlex.join(["python", "scripts/snoop_filter_table.py", *sys.argv[1:]])
    return f"""How many lines do not fit into the snoop filter, although they fit into the L2s? Each L2 holds
1,000,000 B (125,000 doubles, as in github.com/jdmccalpin/SKX-SF-Conflicts). A line is in conflict if it is
beyond the 12 ways of its set, in its slice of the snoop filter. The table has the share of these lines,
counted from physical addresses and the machine files alone. J. D. McCalpin described the mechanism (HPL and
DGEMM performance variability on Intel Xeon Platinum 8160 processors, SC18) and the slices (TACC report
TR-2021-03). `{command}` wrote this page.

- **contiguous**: All L2s share one buffer. It lies at every 2 MiB of a GiB where it fits. The table has the
  mean and the largest share. These are all offsets, so there is no error to state.
- **packed**: One buffer lies on random 2 MiB pages out of a pool of 96 GiB, which it fills one after the
  other. The table has the mean and the standard error of {draws:,} draws (seed {seed}).
- **own page**: This is the same, but each L2 holds the beginning of a page of its own.
- **reference**: These are the figures that this page is held to, for packed pages unless something else is
  said. How many draws they are means of is not stated. The range for 24 slices is as wide as that of means of
  about {REFERENCE_DRAWS} draws.
- **away**: This is how far our mean lies from such a mean, in standard errors of their difference. It has to
  be below 3.

KNL's row is for its 34 tiles with the geometry of Skylake's snoop filter, which is an assumption."""


def talk(socket: Socket, shares: NDArray[np.float64], picture: Path) -> str:
    """Puts what the talk says of processors with 24 slices beside what is obtained, with the figure."""
    period = PERIOD_MIB * MIB // LARGE_BYTES
    apart = float(np.abs(shares[period:] - shares[:-period]).max())
    mean = float(contiguous(socket, wrapping=True).mean())
    clean = shares[: (CLEAN_MIB - buffer_mib(socket)) * MIB // LARGE_BYTES + 1]
    return f"""
| said in the talk (SC18, annotated slides) | obtained |
|---|---|
| 24 slices: the first {CLEAN_MIB} MiB of a GiB are clean | {short(float(clean.max()))} everywhere there |
| 24 slices: repeats every {PERIOD_MIB} MiB | shares {PERIOD_MIB} MiB apart differ by {apart:.5f} at most |
| contiguous: only 18, 20 and 24 slices and KNL conflict | as in the table; 22 and 26 a little |
| random 2 MiB pages: all above 16 cores conflict | as in the table |

If buffers may go on at the beginning of the GiB, the mean on 24 slices is {short(mean)} (reference: .0665).

![Share of lines in conflict against the buffer's offset in a GiB, 24 slices]({picture.name})
"""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the page; its figure lies beside it")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    socket = socket_of(load_machine(SLICES_24))
    shares = contiguous(socket)
    picture = arguments.output.with_suffix(".svg")
    with rc_context(STYLE):
        by_offset(socket, shares).savefig(picture, metadata={"Date": None})
    write_table(
        arguments.output,
        "Snoop filter conflicts",
        introduction(arguments.draws, arguments.seed),
        (
            "machine",
            ">slices",
            ">L2s",
            "contiguous, reference",
            "contiguous, obtained",
            "random, reference",
            "packed, obtained",
            ">away",
            "own page, obtained",
        ),
        (row(reference, arguments.draws, arguments.seed) for reference in REFERENCES),
        talk(socket, shares, picture) + simulation(arguments.seed),
    )


if __name__ == "__main__":
    main()
