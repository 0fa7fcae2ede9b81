"""Streams of one core from L2, L3 and memory, beside measured rates."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from matplotlib.figure import Figure

from pagelens.address.units import LINE_BYTES
from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import NEAR, Kind, Row, Value, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.programs.one_core import KERNELS, LEVELS, Core, StreamKernel
from pagelens.reproduce.study import Findings, Study

# GB/s of one core by likwid-bench, as the benchmark counts bytes; the fastest of ten runs.
MEASURED = {
    "Haswell": {
        "L2": {"load": 57.94, "copy": 36.34, "update": 45.25, "daxpy": 53.60, "triad": 48.46},
        "L3": {"load": 23.09, "copy": 18.72, "update": 29.21, "daxpy": 28.81, "triad": 22.07},
        "memory": {"load": 8.93, "copy": 8.35, "update": 13.89, "daxpy": 12.49, "triad": 9.70},
    },
    "Skylake": {
        "L2": {"load": 110.92, "copy": 70.32, "update": 88.71, "daxpy": 103.66, "triad": 85.84},
        "L3": {"load": 24.42, "copy": 24.32, "update": 48.12, "daxpy": 36.53, "triad": 24.52},
        "memory": {"load": 14.32, "copy": 13.08, "update": 24.85, "daxpy": 20.31, "triad": 13.91},
    },
    "Cascade Lake": {
        "L2": {"load": 111.02, "copy": 68.91, "update": 91.93, "daxpy": 106.79, "triad": 90.04},
        "L3": {"load": 23.93, "copy": 23.63, "update": 47.44, "daxpy": 35.62, "triad": 23.73},
        "memory": {"load": 12.96, "copy": 14.56, "update": 24.27, "daxpy": 21.32, "triad": 15.21},
    },
    "Ice Lake": {
        "L2": {"load": 110.74, "copy": 63.49, "update": 81.57, "daxpy": 98.42, "triad": 71.87},
        "L3": {"load": 24.75, "copy": 25.34, "update": 46.83, "daxpy": 39.79, "triad": 24.32},
        "memory": {"load": 15.37, "copy": 14.51, "update": 24.09, "daxpy": 19.76, "triad": 14.99},
    },
    "Sapphire Rapids": {
        "L2": {"load": 99.68, "copy": 51.39, "update": 63.86, "daxpy": 84.88, "triad": 77.52},
        "L3": {"load": 17.61, "copy": 14.24, "update": 30.97, "daxpy": 26.15, "triad": 18.84},
        "memory": {"load": 14.49, "copy": 12.35, "update": 25.25, "daxpy": 21.98, "triad": 16.29},
    },
    "Zen 2": {
        "L2": {"load": 74.64, "copy": 74.69, "update": 125.79, "daxpy": 111.85, "triad": 73.12},
        "L3": {"load": 54.10, "copy": 56.54, "update": 104.06, "daxpy": 94.97, "triad": 58.30},
        "memory": {"load": 21.77, "copy": 17.89, "update": 31.65, "daxpy": 31.45, "triad": 22.06},
    },
}
KNOWN = ("Haswell", "Skylake")  # rates that were read before the model had lines between caches
SOURCES = {
    "Haswell": "HaswellEP_E5-2695v3.yml",
    "Skylake": "SkylakeSP_Gold-6148.yml",
    "Cascade Lake": "CascadelakeSP_Gold-6248_SNC.yml",
    "Ice Lake": "IcelakeSP_Platinum-8360Y.yml",
    "Sapphire Rapids": "SapphireRapids_Platinum-8470.yml",
    "Zen 2": "Zen2_EPYC-7452.yml",
}


AVX, AVX_512 = 32, 64  # bytes of a vector
# Hz of the benchmark where it is not the machine's, by the same files
CLOCKS = {"Cascade Lake": 2.5e9, "Sapphire Rapids": 2.0e9, "Zen 2": 2.35e9}
_DECIDES = ("Lines between caches decide.", "Lines in flight over latency decide, or lines between caches.")


@dataclass(frozen=True)
class _Rates:
    """GB/s of each kernel at one level of one processor."""

    modelled: Mapping[str, float]
    other: Mapping[str, float]  # by the rule that the model does not follow there


def run(context: StudyContext) -> Findings:
    """Compute each kernel at each level by the model, and by another rule."""
    cores = {
        "Haswell": Core(context.machine("cori-haswell"), vector_bytes=AVX),
        "Skylake": Core(context.machine("skx-6148"), vector_bytes=AVX_512),
        "Cascade Lake": Core(
            context.machine("clx-6240-2s"), vector_bytes=AVX_512, clock=CLOCKS["Cascade Lake"]
        ),
        "Ice Lake": Core(context.machine("icx-8360y-2s"), vector_bytes=AVX_512),
        "Sapphire Rapids": Core(
            context.machine("spr-8468-2s-snc4"), vector_bytes=AVX_512, clock=CLOCKS["Sapphire Rapids"]
        ),
        "Zen 2": Core(context.machine("rome-7352-2s-nps4"), vector_bytes=AVX, clock=CLOCKS["Zen 2"]),
    }
    found = {(name, level): _rates(core, level) for name, core in cores.items() for level in LEVELS}
    rows = [row(name, level, rates) for (name, level), rates in found.items() for row in (_modelled, _other)]
    return Findings(
        tuple(rows),
        (
            drawing(
                "one-core",
                "Rates of one core over measured ones",
                "Each mark is a kernel, whose lines come from L2, L3 or memory. The band is within 25%. "
                "The other rule: from caches, nothing takes turns; from memory, everything does. Modelled.",
                lambda: _figure(found),
            ),
        ),
    )


def _rates(core: Core, level: str) -> _Rates:
    def rate(loop: StreamKernel, seconds: float) -> float:
        return LINE_BYTES * loop.counted / seconds / 1e9

    def other(loop: StreamKernel) -> float:
        return core.from_memory_in_turn(loop) if level == "memory" else core.at_once(loop, level)

    return _Rates(
        {name: rate(loop, core.modelled(loop, level)) for name, loop in KERNELS.items()},
        {name: rate(loop, other(loop)) for name, loop in KERNELS.items()},
    )


def _modelled(name: str, level: str, rates: _Rates) -> Row:
    measured = MEASURED[name][level]
    remark = _DECIDES[level == "memory"]
    if name not in KNOWN:
        remark += " First predicted before the rates were read."
    return Row(
        f"One core of {name}, data in {level}: " + ", ".join(measured),
        SOURCES[name],
        Kind.PREDICTED,
        value(_listed(measured), over_measured=1),
        _against(rates.modelled, measured),
        all(near(rates.modelled[kernel], rate) for kernel, rate in measured.items()),
        remark,
    )


def _other(name: str, level: str, rates: _Rates) -> Row:
    measured = MEASURED[name][level]
    rule = "memory's lines took turns, too" if level == "memory" else "nothing took turns"
    return Row(
        f"The same if {rule}, {name}, data in {level}",
        SOURCES[name],
        Kind.SHOWN,
        value(_listed(measured), over_measured=1),
        _against(rates.other, measured),
    )


def _against(rates: Mapping[str, float], measured: Mapping[str, float]) -> Value:
    ratios = [rates[kernel] / rate for kernel, rate in measured.items()]
    off = fmean(abs(ratio - 1) for ratio in ratios)
    return value(
        f"{_listed(rates)}, off by {off:.0%} on average", over_measured=geometric_mean(ratios), mean_error=off
    )


def _listed(rates: Mapping[str, float]) -> str:
    return ", ".join(f"{rates[kernel]:.0f}" for kernel in KERNELS) + " GB/s"


def _figure(found: Mapping[tuple[str, str], _Rates]) -> Figure:
    drawn = Figure((WIDTH, 2.8), layout="constrained")
    axes = drawn.add_subplot()
    axes.axhspan(1 - NEAR, 1 + NEAR, color=FAINT, alpha=0.25, linewidth=0)
    for place, ((name, level), rates) in enumerate(found.items()):
        measured = MEASURED[name][level]
        for shift, obtained, colour in ((-0.12, rates.modelled, BASELINE), (0.12, rates.other, OTHERS[0])):
            over = [obtained[kernel] / rate for kernel, rate in measured.items()]
            axes.plot([place + shift] * len(over), over, "o", color=colour, markersize=4)
    axes.text(0.99, 0.95, "model", color=BASELINE, transform=axes.transAxes, ha="right", va="top")
    axes.text(0.99, 0.86, "other rule", color=OTHERS[0], transform=axes.transAxes, ha="right", va="top")
    axes.set_xticks(range(len(found)), [f"{name}\n{level}" for name, level in found])
    axes.set_yscale("log")
    axes.set_ylabel("obtained over measured")
    return drawn


STUDY = Study(
    "one-core",
    "Streams of one core by level",
    "RRZE-HPC/kerncraft, examples/machine-files (github.com): likwid-bench on one core each of a Xeon "
    "E5-2695 v3, Gold 6148, Gold 6248, Platinum 8360Y and 8470, and an EPYC 7452",
    run,
    "Machines of the same families, at the clocks of the benchmark. The rule of turns and the widths between "
    "caches are those of the same files and of the ECM model (Stengel et al., arXiv:1410.5010). The rates of "
    "Haswell and Skylake were known when the rule was added; those of the others were read after the "
    "predictions had been committed. The cost of lines that an Intel L1 writes back was added after that, "
    "from documents and a measurement without these rates (docs/decisions/ecm.md). No input was chosen by "
    "any rate. A claim holds if all five rates are within 25%.",
)
