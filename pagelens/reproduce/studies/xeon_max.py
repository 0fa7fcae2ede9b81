"""Xeon Max with its HBM as a cache, from what its memories do apart."""

from matplotlib.figure import Figure

from pagelens.accesses.declared import declared
from pagelens.ensemble.scale import shrink
from pagelens.frames import Node, parse_history, policies
from pagelens.machine import load_machine
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import PhaseRun, run_on
from pagelens.reproduce.study import Findings, Study

GIB = 1 << 30
PUBLISHED = {16: 530.5e9, 96: 193.5e9}  # by GiB a socket


def run(context: StudyContext) -> Findings:
    """STREAM's triad on a fresh node at both sizes, and between them."""
    whole = load_machine("xeon-max-cache")
    sizes, factor = context.pick((16, 32, 64, 96), (16, 96)), context.pick(1.0, 1 / 8)
    # And the sizes with it: fewer slots of one placement that has no chance in it.
    machine = shrink(whole, factor)
    state = Node(machine, context.seed, 0, history=parse_history("boot; run"))
    placement = policies["aged"].place(machine, state)

    def simulate(gib: int) -> PhaseRun:
        workload = declared("stream-triad", round(factor * gib * GIB), machine.cores.count.value)
        return run_on(machine, workload, placement, context)

    found = dict(zip(sizes, context.map(simulate, sizes), strict=True))
    flat = {"HBM": machine.fast_memory, "DDR": machine.ddr}
    inputs = tuple(
        Row(
            f"Flat {name}",
            "docs/04",
            Kind.INPUT,
            value(f"{memory.bandwidth.value / 1e9:.1f} GB/s", bandwidth=memory.bandwidth.value),
            value("taken over"),
        )
        for name, memory in flat.items()
        if memory is not None
    )
    predicted = tuple(
        Row(
            f"STREAM in cache mode over {gib} GiB a socket",
            "docs/04",
            Kind.DERIVED if found[gib].misses == 0 else Kind.PREDICTED,
            value(f"{published / 1e9:.1f} GB/s", bandwidth=published),
            value(f"{found[gib].bandwidth / 1e9:.1f} GB/s", bandwidth=found[gib].bandwidth),
            near(found[gib].bandwidth, published),
            f"{found[gib].hit_share:.0%} of the lines hit."
            + (
                ""
                if near(found[gib].bandwidth, published)
                else " What else a miss costs there is not published: the model moves its line, fills it "
                "and writes a dirty victim back."
            ),
        )
        for gib, published in PUBLISHED.items()
    )
    below = found[96].bandwidth < machine.ddr.bandwidth.value
    slower = Row(
        "Cache mode over 96 GiB a socket is slower than DDR alone",
        "docs/04",
        Kind.PREDICTED,
        value("slower (193.5 of 235.5 GB/s)", ratio=193.5 / 235.5),
        value(
            f"{'slower' if below else 'faster'} ({found[96].bandwidth / machine.ddr.bandwidth.value:.2f} of "
            "it)",
            ratio=found[96].bandwidth / machine.ddr.bandwidth.value,
        ),
        below,
        "The triad's own traffic is less than a cache's: a miss fills a line, a dirty victim is written "
        "back.",
    )
    return Findings(
        (*inputs, *predicted, slower),
        (
            drawing(
                "xeon-max",
                "STREAM triad in cache mode, by size",
                "Lines: what the two memories do in flat mode; crosses: published. Modelled, a fresh node.",
                lambda: _figure(
                    {gib: each.bandwidth for gib, each in found.items()}, machine.ddr.bandwidth.value
                ),
            ),
        ),
    )


def _figure(found: dict[int, float], ddr: float) -> Figure:
    drawn = Figure((WIDTH, 2.6), layout="constrained")
    axes = drawn.add_subplot()
    axes.plot(list(found), [each / 1e9 for each in found.values()], "o-", color=BASELINE, label="cache mode")
    axes.plot(
        list(PUBLISHED), [each / 1e9 for each in PUBLISHED.values()], "x", color=OTHERS[5], label="published"
    )
    axes.axhline(ddr / 1e9, color=OTHERS[0], linewidth=0.8, label="DDR, flat")
    axes.set_xlabel("GiB a socket")
    axes.set_ylabel("GB/s")
    axes.set_ylim(0, None)
    axes.legend(frameon=False)
    return drawn


STUDY = Study(
    "xeon-max",
    "Xeon Max 9480: HBM as a cache",
    "hw-bench (github.com/struggling-student/hw-bench), docs/04",
    run,
    "Machine xeon-max-cache; STREAM with non-temporal stores, frames of a fresh node.",
)
