"""Xeon Max with its HBM as a cache: its bandwidth over array sizes, from what each memory does alone."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from pagelens.accesses.declared import declared
from pagelens.ensemble.scale import shrink
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import Machine
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import PhaseRun, run_on
from pagelens.reproduce.study import Findings, Study

GIB = 1 << 30
# GB/s by GiB a socket: the median over both sockets' runs.
CURVE = {8: 517.8, 16: 529.7, 32: 458.3, 48: 307.5, 64: 275.9, 96: 185.8, 128: 144.6}
FITS = 48  # the largest size below the cache's: random frames lose more than half of the speed there
FLAT_HBM, FLAT_DDR = 559.6, 235.5  # GB/s
SLOWER = 96  # GiB a socket, the size of that claim
COUNTED = 3 / 4  # of the lines that a triad with ordinary stores moves, those that its bandwidth counts
AGED, FRESH = "random", "aged"  # policies; the second on a node without a history

Curve = Mapping[int, PhaseRun]


def run(context: StudyContext) -> Findings:
    """Run the triad at each size, on random frames and on those of a fresh node."""
    whole = context.machine("xeon-max-cache")
    sizes, factor = tuple(CURVE), context.pick(1.0, 1 / 32)
    # The sizes shrink with it, so there are fewer slots for the same shares of the cache.
    machine = shrink(whole, factor)
    state = Node(machine, context.seed, 0, history=parse_history("boot; run"))

    def simulate(part: tuple[str, int]) -> PhaseRun:
        policy, gib = part
        workload = declared("triad", round(factor * gib * GIB), machine.cores.count.value)
        return run_on(machine, workload, policies[policy].place(machine, state), context)

    parts = [(policy, gib) for policy in (AGED, FRESH) for gib in sizes]
    found = dict(zip(parts, context.map(simulate, parts), strict=True))
    random, fresh = ({gib: found[policy, gib] for gib in sizes} for policy in (AGED, FRESH))
    rows = (
        *_inputs(whole),
        _frames(fresh),
        *(_size(random, gib) for gib in CURVE if gib != FITS),
        _error(random),
        _slower(random),
    )
    return Findings(
        rows,
        (
            drawing(
                "xeon-max",
                "Triad in cache mode, by size",
                "Line: what DDR does in flat mode; crosses: published. Modelled, on random frames and on a "
                "fresh node's.",
                lambda: _figure(random, fresh),
            ),
        ),
    )


def counted(run: PhaseRun) -> float:
    """Return bytes a second as the benchmark counts them: two loads and a store, without its fetch."""
    return COUNTED * run.bandwidth


def _inputs(machine: Machine) -> tuple[Row, ...]:
    flat = {"HBM": (FLAT_HBM, machine.fast_memory), "DDR": (FLAT_DDR, machine.ddr)}
    return tuple(
        Row(
            f"Flat {name}",
            "docs/04",
            Kind.INPUT,
            value(f"{published:.1f} GB/s counted", bandwidth=published * 1e9),
            value(f"{memory.bandwidth.value / 1e9:.1f} GB/s moved", bandwidth=memory.bandwidth.value),
            remark="The machine file says how the one follows from the other.",
        )
        for name, (published, memory) in flat.items()
        if memory is not None
    )


def _frames(fresh: Curve) -> Row:
    """Show that the published node was not fresh: it misses where a fresh one cannot."""
    obtained = counted(fresh[FITS]) / 1e9
    return Row(
        f"Frames: a fresh node misses nothing over {FITS} GiB, and the published one lost half of its speed",
        "notebooks/roofline_analysis.ipynb",
        Kind.INPUT,
        value(f"{CURVE[FITS]:.1f} GB/s", bandwidth=CURVE[FITS] * 1e9),
        value(f"{obtained:.0f} GB/s on a fresh node", bandwidth=obtained * 1e9),
        remark="This size tells that frames were not a fresh node's. The rows below are on random ones.",
    )


def _size(random: Curve, gib: int) -> Row:
    obtained, published = counted(random[gib]) / 1e9, CURVE[gib]
    return Row(
        f"Triad in cache mode over {gib} GiB a socket",
        "notebooks/roofline_analysis.ipynb",
        Kind.PREDICTED,
        value(f"{published:.1f} GB/s", bandwidth=published * 1e9),
        value(f"{obtained:.1f} GB/s", bandwidth=obtained * 1e9),
        near(obtained, published),
        f"{random[gib].hit_share:.0%} of the lines hit.",
    )


def _error(random: Curve) -> Row:
    error = {gib: counted(random[gib]) / 1e9 / published - 1 for gib, published in CURVE.items()}
    sizes = np.abs(list(error.values()))
    return Row(
        f"Error of the whole curve from {min(CURVE)} to {max(CURVE)} GiB a socket",
        "notebooks/roofline_analysis.ipynb",
        Kind.SHOWN,
        value("none"),
        value(
            f"{sizes.mean():.0%} in the mean, {sizes.max():.0%} at most", mean=sizes.mean(), most=sizes.max()
        ),
        remark=", ".join(f"{gib} GiB {by:+.0%}" for gib, by in error.items()) + ".",
    )


def _slower(random: Curve) -> Row:
    ratio = counted(random[SLOWER]) / 1e9 / FLAT_DDR
    return Row(
        f"Cache mode over {SLOWER} GiB a socket is slower than DDR alone",
        "docs/04",
        Kind.PREDICTED,
        value(f"slower (193.5 of {FLAT_DDR} GB/s)", ratio=193.5 / FLAT_DDR),
        value(f"{'slower' if ratio < 1 else 'faster'} ({ratio:.2f} of it)", ratio=ratio),
        ratio < 1,
        "Published: the better of two sockets.",
    )


def _figure(random: Curve, fresh: Curve) -> Figure:
    drawn = Figure((WIDTH, 2.6), layout="constrained")
    axes = drawn.add_subplot()
    for curve, colour, label in (
        (random, BASELINE, "random frames"),
        (fresh, OTHERS[1], "a fresh node's frames"),
    ):
        axes.plot(
            list(curve), [counted(run) / 1e9 for run in curve.values()], "o-", color=colour, label=label
        )
    axes.plot(list(CURVE), list(CURVE.values()), "x", color=OTHERS[5], label="published")
    axes.axhline(FLAT_DDR, color=OTHERS[0], linewidth=0.8, label="DDR, flat")
    axes.set_xlabel("GiB a socket")
    axes.set_ylabel("GB/s")
    axes.set_ylim(0, None)
    axes.legend(frameon=False)
    return drawn


STUDY = Study(
    "xeon-max",
    "Xeon Max 9480: HBM as a cache",
    "hw-bench (github.com/struggling-student/hw-bench), docs/04 and its notebook",
    run,
    "Machine xeon-max-cache; a triad with ordinary stores, as g++ -O3 builds it. A store's line is fetched, "
    "which the published bandwidth does not count.",
)
