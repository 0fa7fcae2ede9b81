"""STREAM's sawtooth on Red Storm: row conflicts by the spacing of arrays, under Catamount and under Linux."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pagelens import _core
from pagelens.machine import Machine
from pagelens.machine.dram import Dram
from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.programs.stream import SLIDE, STREAM_C, Layout
from pagelens.reproduce.programs.stream_sweep import (
    CONFLICT_BYTES,
    COUNTED,
    LARGEST_OFFSET,
    LEVEL,
    LONG,
    MIXES,
    WINDOW_BYTES,
    Linux,
    Sweep,
    aliasing_offsets,
    kernel_of,
    point,
)
from pagelens.reproduce.study import Findings, Study

DIP = 0.10  # slower by more is a dip, by less none
OWN = "red-storm"  # of MIXES: what decides
SIMILAR = 0.25  # so much slower is still similar
PERIODS = (2048, 4096, 8192, 16384)  # elements, the shortest first, up to that of three arrays
SAME = 0.03  # times that differ by less are the same
STORES = {"ordinary": _core.AccessKind.write, "non-temporal": _core.AccessKind.stream_store}
LAYOUTS = (SLIDE, STREAM_C)


def run_study(context: StudyContext) -> Findings:
    """Run all sweeps, and compare them with the slides."""
    step = context.pick(64, 512)
    offsets = np.union1d(np.arange(0, LARGEST_OFFSET + 1, step), aliasing_offsets())
    xt4, swizzled = context.machine("red-storm-xt4"), context.machine("red-storm-xt4-swizzle")
    kernels = sorted({kernel.places for layout in LAYOUTS for kernel in layout.kernels.values()})

    def sweep(
        machine: Machine, store: str, at: NDArray[np.int64], lines: int = COUNTED
    ) -> dict[tuple[int, ...], Sweep]:
        parts = [(places, int(offset)) for places in kernels for offset in at]
        costs = context.map(lambda part: point(machine, *part, lines, STORES[store]), parts)
        return {
            places: Sweep(at, kernel_of(places), costs[number * len(at) : (number + 1) * len(at)])
            for number, places in enumerate(kernels)
        }

    coarse = np.union1d(np.arange(0, LARGEST_OFFSET + 1, context.pick(512, 2048)), aliasing_offsets())
    catamount = {store: sweep(xt4, store, offsets) for store in STORES}
    without = sweep(swizzled, "ordinary", coarse, context.pick(LONG, LONG // 8))
    triad = STREAM_C.kernels["triad"]
    linux = Linux(xt4, context, triad)
    at_boot = {policy: linux.frames("boot; run", 0, policy) for policy in ("aged", "deterministic")}
    fresh = linux.sweep(coarse, lambda number: at_boot["aged"])
    random = linux.sweep(coarse, lambda number: linux.frames("boot; run", number, "random"))
    deterministic = linux.sweep(coarse, lambda number: at_boot["deterministic"])
    runs = {mix: linux.runs(context.pick(64, 2), mix) for mix in MIXES}
    before, after = linux.adapted(coarse)

    ordinary = catamount["ordinary"]
    rows = (
        _geometry(xt4.dram),
        *(_where(layout, catamount) for layout in LAYOUTS),
        _whole(ordinary),
        _period("Copy, whose arrays lie two apart", 8192, [ordinary[0, 2]]),
        _period(
            "Add and Triad, which use neighbouring arrays", 16384, [ordinary[0, 1, 2], ordinary[1, 2, 0]]
        ),
        _similar(ordinary),
        _proposed("Bank swizzle takes", without.values(), SWIZZLE),
        _fresh(fresh),
        _aliasing(ordinary[1, 2, 0], fresh),
        _varies(runs),
        _worst(runs),
        _proposed("A random map takes", [random]),
        _proposed("A deterministic map, the same for all runs, takes", [deterministic]),
        _capped(before, after),
    )
    return Findings(
        rows,
        (
            drawing(
                "red-storm-sawtooth",
                "STREAM under Catamount: bandwidth by OFFSET",
                "N = 2,000,000, contiguous frames, one core, ordinary stores; both layouts. Grey: two arrays "
                "of the kernel are within 16 KiB of a multiple of 128 KiB. Narrow dips every 4,096: cache "
                "aliasing. Dotted: banks swizzled. Counted, timed by the model.",
                lambda: _sawtooth(ordinary, without),
            ),
            drawing(
                "red-storm-linux",
                "STREAM Triad under Linux, by OFFSET",
                f"On a freshly booted node, and {len(runs[OWN].offsets)} runs on nodes that other jobs have "
                "fragmented, each with a translation of its own. Counted, timed by the model.",
                lambda: _linux(ordinary[1, 2, 0], fresh, runs[OWN]),
            ),
        ),
    )


def _geometry(dram: Dram | None) -> Row:
    assert dram is not None
    strides = np.uint64(1) << np.arange(12, 24, dtype=np.uint64)
    banks, rows = dram.map()(strides)
    conflicting = int(strides[(banks == 0) & (rows != 0)][0])
    return Row(
        "Addresses so far apart lie in another row of the same bank",
        "slide 10",
        Kind.DERIVED,
        value("16 KiB x 8 banks = 128 KiB", bytes=CONFLICT_BYTES),
        value(f"{conflicting >> 10} KiB", bytes=conflicting),
        conflicting == CONFLICT_BYTES,
    )


def _where(layout: Layout, catamount: Mapping[str, Mapping[tuple[int, ...], Sweep]]) -> Row:
    """Check that each window has a dip, and that all other dips come from aliasing."""
    depths, elsewhere = {}, {}
    for store, sweeps in catamount.items():
        chosen = [sweeps[kernel.places] for kernel in layout.kernels.values()]
        depths[store] = [
            float(each.slower[window[~each.aliased[window]]].max())
            for each in chosen
            for window in each.windows()
        ]
        elsewhere[store] = max(float(each.slower[~each.near & ~each.aliased].max()) for each in chosen)
    shallowest, deepest = min(depths["ordinary"]), max(depths["ordinary"])
    streaming = depths["non-temporal"]
    return Row(
        f"Layout {layout.name}: all kernels dip where arrays used together are so far apart, there alone",
        "slides 4, 5, 11",
        Kind.PREDICTED,
        value("128 KB +/- 16 KB", spacing_bytes=CONFLICT_BYTES, window_bytes=WINDOW_BYTES),
        value(
            f"there {shallowest:.0%} to {deepest:.0%} slower, elsewhere at most {elsewhere['ordinary']:.0%}",
            shallowest_dip=shallowest,
            deepest_dip=deepest,
            elsewhere=elsewhere["ordinary"],
        ),
        shallowest > DIP > elsewhere["ordinary"],
        f"Of {len(depths['ordinary'])} dips, cache aliasing left out. With non-temporal stores "
        f"{min(streaming):.0%} to {max(streaming):.0%}, elsewhere at most {elsewhere['non-temporal']:.0%}.",
    )


def _whole(sweeps: Mapping[tuple[int, ...], Sweep]) -> Row:
    """Compare the curves with the published rule at every OFFSET. The slides' curves have no figures."""
    wrong = np.concatenate(
        [
            ((sweep.slower > DIP) != sweep.near)[~sweep.aliased]
            for layout in LAYOUTS
            for sweep in (sweeps[kernel.places] for kernel in layout.kernels.values())
        ]
    )
    return Row(
        "Error of the whole curves: OFFSETs where either the model dips or the published rule says so, not "
        "both",
        "slides 4, 5, 11",
        Kind.SHOWN,
        value("none", share=0),
        value(f"{wrong.mean():.1%} of {len(wrong):,}", share=float(wrong.mean())),
        remark="All kernels of both layouts, cache aliasing left out. The bandwidths of the slides' curves "
        "are not available as figures, so no depth is compared.",
    )


def _period(what: str, published: int, sweeps: Sequence[Sweep]) -> Row:
    """Return the shortest power of two after which every curve repeats."""
    found = max(_repeats(sweep) for sweep in sweeps)
    return Row(
        f"Period of the sawtooth: {what}",
        "slides 4, 10 and 11, by arithmetic",
        Kind.PREDICTED,
        value(f"{published:,} doubles", period_doubles=published),
        value(f"{found:,} doubles" if found else "none", period_doubles=found),
        found == published,
        "128 KiB over the distance of the arrays, at N = 2,000,000.",
    )


def _repeats(sweep: Sweep) -> int:
    times = dict(zip(sweep.offsets.tolist(), sweep.seconds.tolist(), strict=True))
    for period in PERIODS:
        pairs = [(time, times[offset + period]) for offset, time in times.items() if offset + period in times]
        if max(abs(later / time - 1) for time, later in pairs) < SAME:
            return period
    return 0


def _similar(sweeps: Mapping[tuple[int, ...], Sweep]) -> Row:
    deepest = {
        name: float(
            sweeps[kernel.places].slower[sweeps[kernel.places].near & ~sweeps[kernel.places].aliased].max()
        )
        for name, kernel in STREAM_C.kernels.items()
    }
    return Row(
        "Scale, Add and Triad have a sawtooth similar to Copy's",
        "slide 5",
        Kind.PREDICTED,
        value("similar"),
        value(
            ", ".join(f"{name} {depth:.0%}" for name, depth in deepest.items()) + " at the deepest", **deepest
        ),
        min(deepest.values()) > DIP,
        f"stream.c's layout, cache aliasing left out. Similar: all dip, by more than {DIP:.0%}.",
    )


SWIZZLE = (
    "What is left lies where the distance of two arrays changes upper address bits (18 to 25) so that they "
    "undo the lower ones in the choice of the bank."
)


def _proposed(what: str, sweeps: Iterable[Sweep], reason: str = "") -> Row:
    """Return how deep the dips are that a mitigation leaves.

    The slide lists the mitigation as a question, and no result was published.
    """
    left = np.concatenate([each.over_median[~each.aliased] for each in sweeps])
    worst, share = float(left.max()), float((left > DIP).mean())
    return Row(
        f"{what} the sawtooth away",
        "slide 17, research questions",
        Kind.SHOWN,
        value("asked"),
        value(
            f"{share:.0%} of OFFSETs dip, by at most {worst:.0%}"
            if share
            else f"no dip: at most {worst:.0%} slower than the median",
            slowdown=worst,
            share_in_dips=share,
        ),
        remark=f"{reason * bool(share)} Cache aliasing left out: it is of virtual addresses.".lstrip(),
    )


def _fresh(fresh: Sweep) -> Row:
    worst = float(fresh.over_best[~fresh.aliased].max())
    return Row(
        "Linux, freshly booted: the sawtooth is not there",
        "slide 15",
        Kind.PREDICTED,
        value("dips from cache aliasing only"),
        value(f"at most {worst:.0%} slower elsewhere", slowdown=worst),
        worst < DIP,
        "Triad. STREAM first touches its three arrays in turn, so that pages used together are neighbours.",
    )


def _aliasing(catamount: Sweep, fresh: Sweep) -> Row:
    of_catamount = float(catamount.slower[catamount.aliased & ~catamount.near].min())
    of_linux = float(fresh.over_best[fresh.aliased].min())
    return Row(
        "Dips from cache aliasing, on Linux and on Catamount",
        "slide 15",
        Kind.PREDICTED,
        value("on both"),
        value(
            f"{of_catamount:.0%} slower under Catamount, {of_linux:.0%} under Linux",
            catamount=of_catamount,
            linux=of_linux,
        ),
        min(of_catamount, of_linux) > DIP,
        "Triad, where three arrays lie multiples of 32 KiB apart: three lines in two ways of a set of L1.",
    )


def _varies(runs: Mapping[str, Sweep]) -> Row:
    plain = {mix: sweep.seconds[~sweep.aliased] for mix, sweep in runs.items()}
    over_best = {mix: float(seconds.mean() / seconds.min() - 1) for mix, seconds in plain.items()}
    spread, mean = float(plain[OWN].std() / plain[OWN].mean()), over_best.pop(OWN)
    return Row(
        "Linux, fragmented: every run differs, the average is similar to the best",
        "slide 16",
        Kind.PREDICTED,
        value("varies; similar"),
        value(
            f"average {mean:.0%} slower than the best, deviation {spread:.1%}", average=mean, deviation=spread
        ),
        spread > 0 and mean < SIMILAR,
        f"{len(plain[OWN])} runs at OFFSETs without cache aliasing, on nodes of mix {OWN}. Similar: less "
        f"than {SIMILAR:.0%} slower. {_of_other_mixes(over_best)}",
    )


def _of_other_mixes(shares: Mapping[str, float]) -> str:
    listed = ", ".join(f"{mix} {share:.0%}" for mix, share in shares.items())
    return f"Mixes of Cori's kind, with sizes scaled down and all else as it is: {listed}."


def _worst(runs: Mapping[str, Sweep]) -> Row:
    worsts = {mix: float(sweep.over_best.max()) for mix, sweep in runs.items()}
    slower, worst = runs[OWN].over_best, worsts.pop(OWN)
    plain = float(slower[~runs[OWN].aliased].max())
    return Row(
        "Linux, fragmented: the worst case, by row conflicts and cache aliasing",
        "slide 16",
        Kind.SHOWN,
        value("80% slower", slowdown=0.8),
        value(f"{worst:.0%} slower", slowdown=worst, without_aliasing=plain),
        remark=f"Of {len(slower)} runs. Over 3,900 pages an array, chance evens row conflicts out. "
        f"{_of_other_mixes(worsts)}",
        decided_by=f"The number of runs and their OFFSETs are not published. The worst of {len(slower)} runs "
        f"is {plain:.0%} slower at OFFSETs without cache aliasing, and {worst:.0%} at those with it.",
    )


def _capped(before: Sweep, after: Sweep) -> Row:
    shares = [max(cost.conflict_share for cost in sweep.costs) for sweep in (before, after)]
    return Row(
        "An adaptive mapping caps row conflicts at a level",
        "slides 18 and 19",
        Kind.PREDICTED,
        value("capped"),
        value(
            f"at most {shares[1]:.0%} of lines instead of {shares[0]:.0%}", after=shares[1], before=shares[0]
        ),
        shares[1] <= LEVEL < shares[0],
        f"Triad over all OFFSETs; its pages move to random frames while more than {LEVEL:.0%} of lines "
        "conflict, a level that is assumed; random frames alone leave a little less.",
    )


def _sawtooth(sweeps: Mapping[tuple[int, ...], Sweep], without: Mapping[tuple[int, ...], Sweep]) -> Figure:
    drawn = Figure((WIDTH, 5.2), layout="constrained")
    panels = drawn.subplots(4, 2, sharex=True, sharey=True)
    for column, layout in enumerate(LAYOUTS):
        for row, (name, kernel) in enumerate(layout.kernels.items()):
            axes, sweep = panels[row][column], sweeps[kernel.places]
            for window in sweep.windows(cut_off=True):
                axes.axvspan(*sweep.offsets[[window[0], window[-1]]], color=FAINT, alpha=0.18, linewidth=0)
            flat = without[kernel.places]
            _draw(axes, flat, OTHERS[0], linestyle=":", linewidth=1.0)
            _draw(axes, sweep, BASELINE, linewidth=0.9)
            axes.set_title(f"{name.capitalize()}, layout {layout.name}", fontsize=8.5, loc="left")
            axes.set_xlim(0, LARGEST_OFFSET)
            axes.set_ylim(0, 1.08 * max(float(each.bandwidth.max()) for each in sweeps.values()) / 1e9)
            axes.set_xticks(range(0, LARGEST_OFFSET + 1, 8192))
    drawn.supxlabel("OFFSET (doubles)", fontsize=8.5)
    drawn.supylabel("GB/s, as STREAM counts", fontsize=8.5)
    return drawn


def _draw(axes: Axes, sweep: Sweep, colour: str, linewidth: float, linestyle: str = "-") -> None:
    """Draw the bandwidth as a line, and each dip from cache aliasing as a stroke down."""
    smooth = ~sweep.aliased
    line = sweep.bandwidth[smooth] / 1e9
    axes.plot(sweep.offsets[smooth], line, linestyle, color=colour, linewidth=linewidth)
    dips = sweep.offsets[sweep.aliased]
    above = np.interp(dips, sweep.offsets[smooth], line)
    axes.vlines(dips, sweep.bandwidth[sweep.aliased] / 1e9, above, color=colour, linewidth=linewidth)


def _linux(catamount: Sweep, fresh: Sweep, runs: Sweep) -> Figure:
    drawn = Figure((WIDTH, 2.9), layout="constrained")
    axes = drawn.add_subplot()
    _draw(axes, catamount, FAINT, linewidth=0.7)
    _draw(axes, fresh, OTHERS[0], linewidth=1.1)
    axes.plot(runs.offsets, runs.bandwidth / 1e9, "o", color=BASELINE, markersize=3.2)
    for height, (text, colour) in enumerate(
        {"Catamount": FAINT, "Linux, fresh": OTHERS[0], "Linux, fragmented": BASELINE}.items()
    ):
        axes.text(1.01, 0.9 - 0.1 * height, text, color=colour, transform=axes.transAxes)
    axes.set_xlim(0, LARGEST_OFFSET)
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(0, LARGEST_OFFSET + 1, 4096))
    axes.set_xlabel("OFFSET (doubles)")
    axes.set_ylabel("GB/s, as STREAM counts")
    return drawn


STUDY = Study(
    "red-storm",
    "STREAM's sawtooth on Red Storm",
    "K. Ferreira, K. Pedretti, R. Brightwell, Exploring Memory Management Strategies in Catamount, Cray User "
    "Group, Helsinki, 8 May 2008",
    run_study,
    "Machine file red-storm-xt4 (DDR2-800: the slides' DIMMs are DDR2). STREAM's bandwidths were not "
    "published, so only shapes and ratios are claims. Order and operands of the arrays are declared: the "
    "slide's b, c, a with Copy as a = b, and stream.c's a, b, c with c = a. Stores are ordinary ones: with "
    "non-temporal ones no third line comes to L1, and there would be no dips from cache aliasing. Less than "
    "10% slower is no dip.",
)
