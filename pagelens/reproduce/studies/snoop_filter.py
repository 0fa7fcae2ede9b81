"""Snoop filter conflicts by physical address alone: on which processors, and where in memory?"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from pagelens.conflicts import Socket, socket_of
from pagelens.conflicts.study import HELD_BYTES, LARGE_BYTES, contiguous, random_pages
from pagelens.machine import Machine, load_machine
from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.programs.contained import Contained
from pagelens.reproduce.programs.pages import random_frames
from pagelens.reproduce.study import Findings, Study

MIB = 1 << 20
CLEAN_MIB, PERIOD_MIB = 32, 256  # what the talk says of 24 slices
MACHINES = (
    "skx-6132", "skx-6142", "skx-6150", "skx-6148", "skx-6152", "skx-8160", "skx-8170", "skx-8180",
    "stampede2-knl",
)  # fmt: skip
SLICES_24 = "skx-8160"
MATERIAL = 0.01  # a processor shows conflicts if the worst placement has more of its lines in conflict
VICTIMS = {"shallow": "shallow water", "fft": "FFT"}  # declared workloads that live in L2
STEADY = 0.005  # shares of lines that differ by less are the same

Shares = NDArray[np.float64]


@dataclass(frozen=True)
class Tested:
    """One processor, with the share of lines in conflict for every placement tried."""

    socket: Socket
    contiguous: Shares  # the shares of one buffer at every 2 MiB of a GiB
    random: Shares  # the shares of one buffer over random 2 MiB pages, for every draw

    @property
    def name(self) -> str:
        """The name in figures: "24 cores", or "KNL"."""
        return "KNL" if self.socket.cores_per_l2 > 1 else f"{self.socket.cores}"


def run(context: StudyContext) -> Findings:
    """Count contiguous buffers and random 2 MiB pages on every processor of the talk."""
    draws = context.pick(1000, 100)

    def test(machine: str) -> Tested:
        socket = socket_of(load_machine(machine))
        return Tested(socket, contiguous(socket), random_pages(socket, "packed", draws, context.seed))

    tested = context.map(test, MACHINES)
    middle = tested[MACHINES.index(SLICES_24)]
    rows = (
        _which("with contiguous addresses", tested, "contiguous", {"18", "20", "24", "KNL"}),
        _which("with random 2 MiB pages", tested, "random", {"18", "20", "22", "24", "26", "28", "KNL"}),
        _clean(middle),
        _periodic(middle),
        _whole(middle.contiguous),
        *_victims(context),
        _geometry(tested),
    )
    return Findings(
        rows,
        (
            drawing(
                "snoop-filter-offsets",
                "Conflicts by the place of the memory in a 1 GiB page, 24 slices",
                "Share of lines that are beyond the 12 ways of their set of the snoop filter while all L2s "
                f"together hold one buffer ({middle.socket.l2s} x {HELD_BYTES:,} B), by its offset. Counted.",
                lambda: by_offset(middle.socket, middle.contiguous),
            ),
            drawing(
                "snoop-filter-processors",
                "Conflicts by processor",
                "Bars: mean over the placements; marks: the worst. Contiguous: at every 2 MiB of a GiB where "
                f"the buffer fits. Random: a buffer over random 2 MiB pages, {draws:,} draws. Counted.",
                lambda: by_processor(tested),
            ),
        ),
    )


def _which(where: str, tested: list[Tested], shares: str, published: set[str]) -> Row:
    worst = {each.name: float(getattr(each, shares).max()) for each in tested}
    found = {name for name, share in worst.items() if share > MATERIAL}
    return Row(
        f"Processors of 14 to 28 cores, and KNL, that have conflicts {where}",
        "slides on other processors",
        Kind.PREDICTED,
        value(_listed(published, worst), processors=len(published)),
        value(
            _listed(found, worst), processors=len(found), **{f"worst_{name}": worst[name] for name in worst}
        ),
        found == published,
        f"Counted as having them: over {MATERIAL:.0%} of the lines in the worst placement. Worst shares: "
        + ", ".join(f"{name} {share:.1%}" for name, share in worst.items())
        + ".",
    )


def _listed(names: set[str], order: dict[str, float]) -> str:
    return ", ".join(name for name in order if name in names) or "none"


def _clean(middle: Tested) -> Row:
    clean = middle.contiguous[: (CLEAN_MIB - buffer_mib(middle.socket)) * MIB // LARGE_BYTES + 1]
    worst = float(clean.max())
    return Row(
        f"24 cores: conflicts of memory in the first {CLEAN_MIB} MiB of a 1 GiB page",
        "slide on 1 GiB pages",
        Kind.PREDICTED,
        value("none", share=0),
        value("none" if worst == 0 else f"{worst:.2%} of lines", share=worst),
        worst == 0,
    )


def _periodic(middle: Tested) -> Row:
    """Check that neighbouring periods are alike, and that no shorter period would do."""
    tried = (PERIOD_MIB // 4, PERIOD_MIB // 2, PERIOD_MIB)  # and two shorter ones
    periods = {mib: _apart(middle.contiguous, mib) for mib in tried}
    shortest = min((mib for mib, difference in periods.items() if difference < STEADY), default=0)
    return Row(
        "24 cores: the pattern over a 1 GiB page repeats",
        "slide on 1 GiB pages",
        Kind.PREDICTED,
        value(f"every {PERIOD_MIB} MiB", period_mib=PERIOD_MIB),
        value(
            f"every {shortest} MiB (shares differ by {periods[PERIOD_MIB]:.5f} at most)",
            period_mib=shortest,
            largest_difference=periods[PERIOD_MIB],
        ),
        shortest == PERIOD_MIB,
    )


def _whole(shares: Shares) -> Row:
    return Row(
        "24 cores: the whole pattern over a 1 GiB page",
        "slide on 1 GiB pages",
        Kind.SHOWN,
        value("a picture without figures"),
        value(
            f"{shares.min():.1%} to {shares.max():.1%} of lines at {len(shares)} offsets, "
            f"{shares.mean():.1%} in the mean",
            mean=shares.mean(),
            worst=shares.max(),
        ),
        remark="The error of the curve is not known, because its points are not available as figures.",
    )


def _victims(context: StudyContext) -> tuple[Row, Row]:
    """Simulate the programs that the talk names as likely victims.

    The talk did not measure them.
    """
    machine = load_machine(SLICES_24)
    random, first = {}, {}
    for name, title in VICTIMS.items():
        program = Contained(machine, name, HELD_BYTES)
        draws = range(context.pick(100, 12))
        random[title] = np.array(context.map(partial(_lost, machine, program, context.seed), draws))
        first[title] = program.lost(np.arange(program.pages, dtype=np.uint64))
    return (
        Row(
            "24 cores, random 2 MiB pages: cache-contained codes whose L2s lose lines to the snoop filter",
            "slide on codes to test",
            Kind.SHOWN,
            value("shallow water and FFTs are likely (not measured)"),
            value(
                "; ".join(
                    f"{title} in {(lost > MATERIAL).mean():.0%} of the draws, at worst {lost.max():.0%} "
                    "of L2's references"
                    for title, lost in random.items()
                ),
                **{f"worst_{name}": lost.max() for name, lost in zip(VICTIMS, random.values(), strict=True)},
            ),
            remark=f"{HELD_BYTES / 1e6:g} MB a core; a draw counts if it loses over {MATERIAL:.0%}. Lines "
            "are counted; the time model hides what they cost behind arithmetic, as DGEMM's.",
        ),
        Row(
            f"The same codes in the first {CLEAN_MIB} MiB of a 1 GiB page",
            "slide on 1 GiB pages",
            Kind.SHOWN,
            value("none", share=0),
            value("none" if not any(first.values()) else str(first), share=max(first.values())),
        ),
    )


def _lost(machine: Machine, program: Contained, seed: int, draw: int) -> float:
    return program.lost(random_frames(machine, program.pages, seed, draw))


def _apart(shares: Shares, mib: int) -> float:
    """Return the largest difference between places that far apart."""
    step = mib * MIB // LARGE_BYTES
    return float(np.abs(shares[step:] - shares[:-step]).max())


def _geometry(tested: list[Tested]) -> Row:
    shapes = sorted({(each.socket.shared[0].sets, each.socket.shared[0].ways) for each in tested})
    text = ", ".join(f"{sets} sets x {ways} ways" for sets, ways in shapes)
    return Row(
        "Snoop filter of a slice",
        "machine files",
        Kind.INPUT,
        value("not stated"),
        value(text, sets=shapes[0][0], ways=shapes[0][1]),
        remark="Published by others for Skylake; KNL's is assumed to be the same.",
    )


def buffer_mib(socket: Socket) -> int:
    """Return the MiB of the whole 2 MiB pages that hold the buffer of all L2s."""
    return -(-socket.l2s * HELD_BYTES // LARGE_BYTES) * LARGE_BYTES // MIB


def by_offset(socket: Socket, shares: Shares) -> Figure:
    """Draw the share over the buffer's offset in a GiB."""
    drawn = Figure((WIDTH, 2.9), layout="constrained")
    axes = drawn.add_subplot()
    offsets = np.arange(len(shares)) * LARGE_BYTES / MIB
    for start in range(0, 1024, PERIOD_MIB):
        axes.axvline(start, color=FAINT, linewidth=0.7, linestyle=(0, (4, 3)))
    axes.step(offsets, shares, where="post", color=BASELINE, linewidth=1.1)
    axes.fill_between(offsets, shares, step="post", color=BASELINE, alpha=0.2, linewidth=0)
    top = float(shares.max())
    last = CLEAN_MIB - buffer_mib(socket)
    clean = OTHERS[1]
    axes.axvspan(0, last, color=clean, linewidth=0)
    text = f"buffer in the first {CLEAN_MIB} MiB (offsets to {last} MiB): none"
    axes.text(last + 6, 1.14 * top, text, color=clean)
    axes.text(3 * PERIOD_MIB - 6, 1.14 * top, f"the same every {PERIOD_MIB} MiB", color=FAINT, ha="right")
    axes.set_xlim(0, 1024)
    axes.set_ylim(0, 1.25 * top)
    axes.set_xticks(range(0, 1025, PERIOD_MIB // 2))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel(f"offset of {socket.l2s} x {HELD_BYTES:,} B in a GiB page (MiB)")
    axes.set_ylabel("lines beyond 12 in their set")
    return drawn


def by_processor(tested: list[Tested]) -> Figure:
    """Draw the mean and the worst share, contiguous beside random."""
    drawn = Figure((WIDTH, 2.9), layout="constrained")
    axes = drawn.add_subplot()
    for number, each in enumerate(tested):
        for shift, shares, colour in ((-0.2, each.contiguous, BASELINE), (0.2, each.random, OTHERS[0])):
            axes.bar(number + shift, shares.mean(), 0.36, color=colour, linewidth=0)
            axes.plot([number + shift], [shares.max()], "_", color=colour, markersize=11, markeredgewidth=1.6)
    axes.axhline(MATERIAL, color=FAINT, linewidth=0.7, linestyle=(0, (4, 3)))
    axes.set_xticks(range(len(tested)), [each.name for each in tested])
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("cores (slices)")
    axes.set_ylabel("lines beyond 12 in their set")
    axes.text(0.02, 0.95, "contiguous", color=BASELINE, transform=axes.transAxes, va="top")
    axes.text(0.02, 0.86, "random 2 MiB pages", color=OTHERS[0], transform=axes.transAxes, va="top")
    return drawn


STUDY = Study(
    "snoop-filter",
    "Snoop filter conflicts by physical address",
    "J. D. McCalpin, HPL and DGEMM Performance Variability on the Xeon Platinum 8160 Processor, SC18, and "
    "the talk's annotated slides, January 2019",
    run,
    "Every core holds 125,000 doubles of its own at the same time, as the public test SKX-SF-Conflicts has "
    "it; slices are those of TACC TR-2021-03. Counted from addresses alone, nothing is timed. Shallow water "
    "and FFT are the workloads of docs/declared.md, a copy a core, replayed through L2s, snoop filter, L3.",
)
