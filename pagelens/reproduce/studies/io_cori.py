"""Optimizing I/O on KNL: why buffered I/O is slow on slow cores, and what changes it."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from statistics import fmean

from matplotlib.figure import Figure

from pagelens.address.units import FRAME_BYTES
from pagelens.io import predict_transfers
from pagelens.machine import load_machine
from pagelens.report.drawing import BASELINE, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.study import Findings, Study

_PAGES = 10_485_760_000 / 4096  # of a run of dd
MACHINES = ("haswell", "knl")
_SAME_GHZ = (1.3, 1.4)  # rates that both processors were set to
_LEAST_NEAR = 0.9  # share of points that must be near, where many are one claim

# These were read off the page's figures, to 5%: GB/s by how many threads read, on cores of their own and on
# one core.
THREADS = (2, 4, 8, 16, 32, 64, 128, 256)
OWN_CORES = (0.1, 0.2, 0.3, 0.5, 0.9, 1.3, 1.6, 1.7)
# MiB/s of four nodes, by the number of writers on a node, with a file each.
WRITERS = (1, 2, 4, 8, 16, 32)
FILES_KNL = (900, 1700, 3600, 6400, 9550, 8950)
FILES_HASWELL = (1800, 4000, 7900, 8700, 8800, 9100)
# GB/s of collective writes, by aggregators of a node, and by MB of the buffer.
BUFFERS_MB = (1, 2, 4, 8, 16, 32, 64)
COLLECTIVE: Mapping[int, Sequence[float]] = {
    1: (4.8, 4.0, 6.0, 8.7, 9.4, 13.6, 14.1),
    2: (6.7, 6.2, 7.3, 9.4, 12.1, 16.2, 19.0),
    4: (7.5, 7.2, 8.0, 10.2, 13.1, 18.7, 20.3),
    8: (7.4, 7.8, 8.2, 10.9, 17.1, 15.0, 14.0),
    16: (7.3, 7.9, 8.7, 8.4, 8.4, 7.5, 7.2),
}
# GB/s of HDF5's collective writes on 32 nodes, by the setting.
SPECIALISED = {"nothing": 6.3, "-c 8": 7.4, "-c 8 -S 4": 7.6, "-c 17": 6.6}
HDF5_BUFFERED, HDF5_DIRECT = (4.45, 4.5, 5.45, 5.45), (4.75, 4.75, 5.95, 6.1)  # GB/s
HDF5_MB_S = {"haswell": 1064.96, "knl": 348.16}  # one core, buffered
DSYNC_MB_S = {"haswell": 45.7, "knl": 31.3}


@dataclass(frozen=True)
class Dd:
    """The means over the runs of dd at one clock rate."""

    ghz: float  # cycles divided by processor time
    rate: float  # MB/s
    cycles: float  # per page
    instructions: float  # per page


Runs = Mapping[str, Sequence[Dd]]  # by machine, the slowest clock first


def run(context: StudyContext) -> Findings:
    """Compare the published runs with the predictions.

    Nothing is simulated: the runs are data, and the predictions follow from a few of them.
    """
    lustre, null = read_dd("lustre"), read_dd("null")
    direct = read_direct()
    predicted = predicted_rates(lustre)
    return Findings(
        (
            *_dd(lustre, null, predicted),
            *_direct(direct),
            *_writers(),
            _threads(),
            *_arithmetic(lustre),
        ),
        (
            drawing(
                "io-cori-dd",
                "Buffered writes of one core, by clock rate",
                "dd to Lustre. Crosses: published. Line: predicted for KNL from Haswell's instructions a "
                "page "
                "and KNL's cycles an instruction at its slowest clock.",
                lambda: _figure(lustre, predicted),
            ),
        ),
    )


def _data(name: str) -> list[dict[str, str]]:
    text = files("pagelens.reproduce").joinpath("data", "io_cori", name).read_text()
    return list(csv.DictReader(text.splitlines()))


def read_dd(target: str) -> Runs:
    """Return the runs to one target, "lustre" or "null", by machine."""
    grouped: dict[str, dict[int, list[dict[str, str]]]] = {}
    for row in _data("dd.csv"):
        if row["target"] == target:
            grouped.setdefault(row["machine"], {}).setdefault(int(row["set_khz"]), []).append(row)
    return {machine: [_mean(by[khz]) for khz in sorted(by)] for machine, by in grouped.items()}


def _mean(rows: Sequence[Mapping[str, str]]) -> Dd:
    def of(get: Callable[[Mapping[str, str]], float]) -> float:
        return fmean(get(row) for row in rows)

    return Dd(
        of(lambda r: float(r["cycles"]) / float(r["task_clock_ms"]) / 1e6),
        of(lambda r: float(r["bytes"]) / float(r["copied_s"]) / 1e6),
        of(lambda r: float(r["cycles"]) / _PAGES),
        of(lambda r: float(r["instructions"]) / _PAGES),
    )


def read_direct() -> Mapping[str, Sequence[tuple[int, float]]]:
    """Return the total processes and the MiB/s of IOR with O_DIRECT, by machine."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in _data("ior_direct.csv"):
        processes = int(row["nodes"]) * int(row["processes"])
        found.setdefault(row["machine"], []).append((processes, float(row["mib_s"])))
    return found


def predicted_rates(lustre: Runs) -> list[tuple[float, float]]:
    """Return GHz and MB/s of KNL's runs, as predicted.

    The prediction takes Haswell's instructions per page, and KNL's cycles per instruction at its slowest
    clock rate.
    """
    slowest = lustre["knl"][0]
    cycles = _haswell_instructions(lustre) * slowest.cycles / slowest.instructions
    return [(dd.ghz, dd.ghz * 1e9 / cycles * FRAME_BYTES / 1e6) for dd in lustre["knl"]]


def _haswell_instructions(lustre: Runs) -> float:
    return fmean(dd.instructions for dd in lustre["haswell"])


def _dd(lustre: Runs, null: Runs, predicted: list[tuple[float, float]]) -> list[Row]:
    haswell = _haswell_instructions(lustre)
    knl = fmean(dd.instructions for dd in lustre["knl"])
    published = [dd.rate for dd in lustre["knl"][1:]]
    rates = [rate for _, rate in predicted[1:]]
    off = fmean(abs(a / b - 1) for a, b in zip(rates, published, strict=True))
    by_clock = [{round(dd.ghz, 1): dd.rate for dd in runs[m]} for runs in (lustre, null) for m in MACHINES]
    haswell_rate, knl_rate, haswell_copy, knl_copy = by_clock
    copying = [haswell_rate[ghz] * knl_copy[ghz] / haswell_copy[ghz] for ghz in _SAME_GHZ]
    at_same = [knl_rate[ghz] for ghz in _SAME_GHZ]
    off_copying = fmean(a / b - 1 for a, b in zip(copying, at_same, strict=True))
    turbo = {machine: lustre[machine][-1].rate for machine in MACHINES}
    hdf5 = HDF5_MB_S["haswell"] * turbo["knl"] / turbo["haswell"]
    model = 1 / (
        predict_transfers(load_machine("cori-knl-cache"), "write", 1 << 20) / (1 << 20)
        + 1 / (null["knl"][-1].rate * 1e6)
    )
    return [
        Row(
            "Instructions that a buffered write takes a page, on Haswell",
            "raw runs of dd",
            Kind.INPUT,
            value(f"{haswell:,.0f}", instructions=haswell),
            value("taken over"),
        ),
        Row(
            "KNL takes as many instructions a page: they belong to the kernel, not to the processor",
            "raw runs of dd",
            Kind.PREDICTED,
            value(f"{knl:,.0f}", instructions=knl),
            value(f"{haswell:,.0f}", instructions=haswell),
            near(haswell, knl),
        ),
        Row(
            "Buffered writes of one KNL core at 1.1 to 1.5 GHz",
            "raw runs of dd",
            Kind.PREDICTED,
            value(f"{published[0]:.0f} to {published[-1]:.0f} MB/s", low=published[0], high=published[-1]),
            value(f"{rates[0]:.0f} to {rates[-1]:.0f} MB/s, off by {off:.0%} on average",
                  low=rates[0], high=rates[-1], mean_error=off),
            off <= 0.25,
            "From Haswell's instructions a page, and from KNL's cycles an instruction at 1.0 GHz, which is "
            "one of these runs; so it tests that both carry over to other clock rates.",
        ),
        Row(
            "The speed of copying alone explains how slow KNL is at equal clock rates",
            "the usual guess; raw runs to /dev/null",
            Kind.PREDICTED,
            value(f"{at_same[0]:.0f} and {at_same[1]:.0f} MB/s at 1.3 and 1.4 GHz", first=at_same[0],
                  second=at_same[1]),
            value(f"{copying[0]:.0f} and {copying[1]:.0f} MB/s, {off_copying:+.0%}", first=copying[0],
                  second=copying[1], mean_error=off_copying),
            abs(off_copying) <= 0.05,
            "KNL is slower still: the work for each page counts, and it has no vectors.",
        ),
        Row(
            "HDF5's buffered writes of one KNL core",
            "figure direct_bb_io, notebook hio",
            Kind.PREDICTED,
            value(f"{HDF5_MB_S['knl']:.0f} MB/s", rate=HDF5_MB_S["knl"]),
            value(f"{hdf5:.0f} MB/s", rate=hdf5),
            near(hdf5, HDF5_MB_S["knl"]),
            "Haswell's rate with HDF5, times the ratio of the two processors with dd.",
        ),
        Row(
            "dd at KNL's turbo clock, by the section [io] of cori-knl-cache",
            "raw runs of dd",
            Kind.DERIVED,
            value(f"{turbo['knl']:.0f} MB/s", rate=turbo["knl"]),
            value(f"{model / 1e6:.0f} MB/s", rate=model / 1e6),
            near(model / 1e6, turbo["knl"]),
            "Its table was made from these runs, less what reading /dev/zero takes.",
        ),
    ]  # fmt: skip


def _direct(direct: Mapping[str, Sequence[tuple[int, float]]]) -> list[Row]:
    first = direct["knl"][0][1]
    rows = []
    for machine in ("knl", "haswell"):
        points = [point for point in direct[machine] if machine != "knl" or point[0] > 1]
        close = fmean(near(first * processes, rate) for processes, rate in points)
        off = fmean(abs(first * processes / rate - 1) for processes, rate in points)
        rows.append(
            Row(
                f"Direct writes of 1 to 512 processes, {machine.replace('knl', 'KNL').replace('has', 'Has')}",
                "notebook iostack",
                Kind.PREDICTED,
                value(f"{len(points)} points", points=len(points)),
                value(
                    f"{close:.0%} of them within 25%, off by {off:.0%} on average", near=close, mean_error=off
                ),
                close >= _LEAST_NEAR,
                f"Each process writes as fast as one alone on KNL ({first:.1f} MiB/s): it waits for its own "
                "operation, so processors make no difference.",
            )
        )
    return rows


def _writers() -> list[Row]:
    rows = []
    for name, published in (("KNL", FILES_KNL), ("Haswell", FILES_HASWELL)):
        one, most = published[0], FILES_HASWELL[-1]
        obtained = [min(n * one, most) for n in WRITERS]
        pairs = list(zip(obtained[1:], published[1:], strict=True))
        off = fmean(abs(a / b - 1) for a, b in pairs)
        rows.append(
            Row(
                f"Buffered writes of 2 to 32 writers a node on four nodes, {name}",
                "figure parallel_hk, read off",
                Kind.PREDICTED,
                value(", ".join(map(str, published[1:])) + " MiB/s"),
                value(
                    ", ".join(map(str, obtained[1:])) + f" MiB/s, off by {off:.0%} on average", mean_error=off
                ),
                all(near(a, b) for a, b in pairs),
                "Each writer writes as fast as one alone, up to what Haswell's nodes reach with 32 writers.",
            )
        )
    return rows


def _threads() -> Row:
    rate, most = OWN_CORES[0] / 2, 1 / (1 / OWN_CORES[-1] - 1 / (THREADS[-1] * OWN_CORES[0] / 2))
    obtained = [1 / (1 / (n * rate) + 1 / most) for n in THREADS]
    pairs = list(zip(obtained[1:-1], OWN_CORES[1:-1], strict=True))
    off = fmean(abs(a / b - 1) for a, b in pairs)
    return Row(
        "Reads of 4 to 128 threads on cores of their own",
        "figure cori_lustre_mul, read off",
        Kind.PREDICTED,
        value(", ".join(f"{each:g}" for each in OWN_CORES[1:-1]) + " GB/s"),
        value(", ".join(f"{each:.2g}" for each in obtained[1:-1]) + f" GB/s, off by {off:.0%} on average",
              mean_error=off),
        all(near(a, b) for a, b in pairs),
        "From 2 and 256 threads: each waits for its reads, and the node has a limit. The figure of the page "
        "is of reads, though its text says writing.",
    )  # fmt: skip


def _arithmetic(lustre: Runs) -> list[Row]:
    nothing, alone, both = (SPECIALISED[key] for key in ("nothing", "-c 8", "-c 8 -S 4"))
    share = (alone - nothing) / (both - nothing)
    best = max((rate, count, mb) for count, row in COLLECTIVE.items()
               for rate, mb in zip(row, BUFFERS_MB, strict=True))  # fmt: skip
    faster = max(d / b for d, b in zip(HDF5_DIRECT, HDF5_BUFFERED, strict=True)) - 1
    knl = load_machine("cori-knl-cache")
    buffered = 1 / predict_transfers(knl, "write", 1 << 20)
    one_direct = 1 / predict_transfers(knl, "direct_write", 1 << 20)
    sync = (1 << 20) / (predict_transfers(knl, "write", 1 << 20) + knl.io.sync.value) / 1e6  # type: ignore[union-attr]
    return [
        Row(
            "Core specialisation raises HDF5's collective writes on 32 nodes from 6.3 to 7.6 GB/s",
            "text; figure core_spec",
            Kind.SHOWN,
            value("6.3 to 7.6 GB/s", before=6.3, after=7.6),
            value(f"{share:.0%} of the gain came by -c 8 alone", share=share),
            None,
            "The text credits all of it to core specialisation. The figure has a bar for -c 8 without -S 4, "
            f"and it reaches {alone} GB/s; -S 4 adds {both / alone - 1:.0%}.",
        ),
        Row(
            "One KNL writer is faster through the page cache than with direct writes",
            "text: use the default in most cases",
            Kind.DERIVED,
            value("buffered"),
            value(f"{buffered:.0f} against {one_direct:.0f} MiB/s", buffered=buffered, direct=one_direct),
            buffered > one_direct,
            f"{buffered / one_direct:.0f} direct writers reach what one buffered writer does.",
        ),
        Row(
            "dd with dsync on KNL, by the section [io] of cori-knl-cache",
            "notebook hio",
            Kind.DERIVED,
            value(f"{DSYNC_MB_S['knl']} MB/s", rate=DSYNC_MB_S["knl"]),
            value(f"{sync:.0f} MB/s", rate=sync),
            near(sync, DSYNC_MB_S["knl"]),
        ),
        Row(
            "Direct I/O makes HDF5 up to 11% faster",
            "text; figure directknlwrite, read off",
            Kind.DERIVED,
            value("11%", gain=0.11),
            value(f"{faster:.0%}", gain=faster),
            abs(faster - 0.11) <= 0.03,
        ),
        Row(
            "The best collective buffer",
            "figure collective_bw, read off",
            Kind.SHOWN,
            value(f"{best[0]} GB/s", rate=best[0]),
            value(f"{best[1]} aggregators a node with {best[2]} MB, {best[0] / COLLECTIVE[1][0]:.1f} times "
                  "one with 1 MB",
                  aggregators=best[1], buffer_mb=best[2], gain=best[0] / COLLECTIVE[1][0]),
            None,
            "16 aggregators a node are worse than 4 at every size above 4 MB.",
        ),
        Row(
            "MPI's latency: intra 1.97 and 4.92 us, inter 0.23 and 0.63 us (Haswell, KNL)",
            "table",
            Kind.SHOWN,
            value("4.92 and 0.63 us on KNL", intra_us=4.92, inter_us=0.63),
            value("the labels must be swapped"),
            None,
            "A message inside a node cannot take eight times as long as one between nodes.",
        ),
        Row(
            "Binding (-c 64 --cpu-bind=cores) reads a WRF restart with 4 ranks in 36 instead of 300 s",
            "text, J. Michalakes",
            Kind.SHOWN,
            value("8.3 times as fast", factor=300 / 36),
            value("more than 4 cores for 4 ranks can give", factor=4.0),
            None,
            "So sharing a core was not all: in figure cori_lustre_mul, 256 threads on one core are 8.5 times "
            "as slow.",
        ),
    ]  # fmt: skip


def _figure(lustre: Runs, predicted: list[tuple[float, float]]) -> Figure:
    drawn = Figure((WIDTH, 2.6), layout="constrained")
    axes = drawn.add_subplot()
    for name, colour in (("haswell", OTHERS[0]), ("knl", BASELINE)):
        axes.plot([dd.ghz for dd in lustre[name]], [dd.rate for dd in lustre[name]], "x", color=colour,
                  label=name.replace("knl", "KNL").replace("has", "Has"))  # fmt: skip
    axes.plot(*zip(*predicted, strict=True), "-", color=BASELINE, linewidth=1, label="KNL, predicted")
    axes.set_xlabel("GHz")
    axes.set_ylabel("MB/s")
    axes.set_ylim(0, None)
    axes.legend(frameon=False)
    return drawn


STUDY = Study(
    "io-cori",
    "Reads and writes on Cori's KNL nodes",
    "NERSC, Optimizing IO on KNL; its runs: github.com/NERSC/heterogeneous-IO (BSD-3), of Understanding "
    "the IO Performance Gap Between Cori KNL and Haswell, Cray User Group 2017",
    run,
    "Figures that were read off pictures are exact to some 5%. The page's text lost the lines of options for "
    "`#SBATCH -S 4` and of `MPIO_DIRECT_READ`. The notebook's overlays of direct over buffered runs plot by "
    "index and not by size, so they are not used.",
)
