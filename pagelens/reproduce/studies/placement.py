"""Objects in fast or slow memory: what a developer's list can gain, and what the best placement gains.

Three programs run on three machines with two memories, from one profile each (docs/place.md). The poster does
not say which arrays its developer placed, so every list of the hydro's lasting arrays is evaluated.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from pagelens.accesses.declared import declared
from pagelens.accesses.declared.hydro import LOOPS
from pagelens.accesses.workload import Cut
from pagelens.address.units import LINE_BYTES
from pagelens.machine import Machine
from pagelens.place.analysis import SWEEP, PoliciesAtCapacity, evaluate_policies
from pagelens.place.cache_mode import CacheMode, cache_modes
from pagelens.place.object_list import listed_objects
from pagelens.place.policies import DEVELOPER, OURS
from pagelens.place.profile import INTERVALS, Floats, Profile, profile
from pagelens.place.time_model import TimeModel
from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.study import Findings, Study

SOCKETS, KNL, MAX = "sandy-bridge-two-socket", "cori-knl-flat", "xeon-max-flat"
MACHINES = {SOCKETS: "two sockets", KNL: "KNL flat", MAX: "Xeon Max flat"}
LULESH_RANKS = {SOCKETS: 8, KNL: 64}  # one for each core of the poster's machines (assumed for the sockets)
RANKS = {SOCKETS: 8, KNL: 34, MAX: 56}  # of a core each; on KNL of a tile's two
BYTES = {SOCKETS: 2 << 30, KNL: 4 << 30, MAX: 8 << 30}  # of all ranks (assumed: they fit fast memory)
PROGRAMS = {"hydro": "hydro (LULESH)", "cg": "cg (HPCG)", "minife": "minife"}
# Plausible choices by hand, and that of miniFE's memkind variant, which puts the matrix into fast memory.
LISTS = {
    "hydro": ("position", "velocity", "force", "nodes"),
    "cg": ("values", "columns"),
    "minife": ("values", "columns", "starts"),
}
TEMPORARY = ("gradients", "before")  # of the hydro; its other arrays last
# What LULESH was built for: of what QEMU runs, which traced it, the nearest to the processor.
NEAREST = {SOCKETS: "sandybridge", KNL: "x86-64-v3"}
SPEEDUP = {SOCKETS: 0.32, KNL: 0.43}  # of all fast over all slow, figure 1
BY_LIST = {SOCKETS: 0.03, KNL: 0.01}  # "3% on the dual-socket and less than 1% on the KNL"
HALF = SWEEP.index(0.5)
MOST_OF_GAIN = 0.9  # HMPT: 90% of the gain ...
HMPT = (0.60, 0.75)  # ... with 60 to 75% of the data


@dataclass(frozen=True)
class Case:
    """One program on one machine, with a placement by every policy for every capacity of the sweep."""

    program: str
    machine: str
    profile: Profile
    model: TimeModel
    sweep: Sequence[PoliciesAtCapacity]
    cache: Sequence[CacheMode]

    def gains(self, policy: str) -> list[float]:
        """Return the gain of a policy at each capacity of the sweep."""
        return [self.model.gain(self.model.seconds(placed.shares[policy])) for placed in self.sweep]

    @property
    def reached_at(self) -> float:
        """The share of the footprint with which the optimum reaches most of the gain of all-fast memory."""
        return float(np.interp(MOST_OF_GAIN, self.gains(OURS), SWEEP))


def run(context: StudyContext) -> Findings:
    """Make nine profiles with their sweeps, and evaluate the lists of the hydro on the poster's machines."""
    scale = context.pick(1, 12)
    keys = list(product(PROGRAMS, MACHINES))
    found = context.map(lambda key: _case(*key, BYTES[key[1]] // scale, context), keys)
    cases = dict(zip(keys, found, strict=True))
    lists = {machine: _all_lists(cases["hydro", machine]) for machine in (SOCKETS, KNL)}
    rows = (
        *(_best_case(context.machine(machine)) for machine in (SOCKETS, KNL)),
        *(_developer(cases["hydro", machine], lists[machine], machine) for machine in (SOCKETS, KNL)),
        _hmpt([cases[program, MAX] for program in PROGRAMS]),
        _half(list(cases.values())),
        _cache(list(cases.values())),
    )
    return Findings(
        rows,
        (
            drawing(
                "placement-sweep",
                "What fast memory gains, by its capacity and by policy",
                "Share of the gain of all data in fast memory; grey: as a cache, random frames to frames in "
                "a row. Modelled.",
                lambda: _sweep_figure(cases),
            ),
            drawing(
                "placement-lists",
                "Every list of the hydro's lasting arrays",
                "Speedup over all in slow memory, without a limit of capacity. Dashed: published, of a list "
                "that is not known. Modelled.",
                lambda: _lists_figure(cases, lists),
            ),
            drawing(
                "placement-regions",
                "Regions of the hydro's step, KNL: speedup over all in slow memory",
                "The list without a limit, the optimum with fast memory for half of the footprint. Modelled.",
                lambda: _regions_figure(cases["hydro", KNL]),
            ),
        ),
    )


def _case(program: str, machine_name: str, size: int, context: StudyContext) -> Case:
    machine = context.machine(machine_name)
    ranks = RANKS[machine_name]
    workload = declared(program, size // ranks, max(1, machine.cores.count.value // ranks))
    course = workload.timeline(Cut(machine, INTERVALS))
    found = profile(workload, machine, ranks, course, context.cancel)
    model = TimeModel.of(found)
    developer = listed_objects(LISTS[program], workload.objects)
    sweep = [evaluate_policies(found, model, share * found.footprint_bytes, developer) for share in SWEEP]
    capacities = [share * found.footprint_bytes * ranks for share in SWEEP]
    modes = cache_modes(found, course, capacities, context.cancel)
    return Case(program, machine_name, found, model, sweep, modes)


def _all_lists(case: Case) -> Floats:
    """Return the speedup over all-slow memory for every non-empty [list] of lasting arrays."""
    lasting = [o.index for o in case.profile.objects if o.declared and o.name not in TEMPORARY]
    chosen = np.array(list(product((0.0, 1.0), repeat=len(lasting))))[1:]
    shares = np.zeros((len(chosen), len(case.profile.objects)))
    shares[:, lasting] = chosen
    return np.asarray(case.model.all_slow_s / case.model.seconds_of_many(shares) - 1)


def _best_case(machine: Machine) -> Row:
    """Return LULESH's own speedup, from what one rank executes and moves (data/lulesh/README.md)."""
    published = SPEEDUP[machine.name]
    speedups = {
        each["march"]: _speedup(each, machine) for each in _lulesh() if each["machine"] == machine.name
    }
    own = speedups.pop(NEAREST[machine.name])
    others = ", ".join(f"{march} {speedup:.0%}" for march, speedup in speedups.items())
    return Row(
        f"All of LULESH in fast memory over all in slow memory, {MACHINES[machine.name]}",
        "poster 107, figure 1 and its text",
        Kind.PREDICTED,
        value(f"{published:.0%}", speedup=published),
        value(f"{own:.0%}", speedup=own),
        near(own, published),
        f"From instructions, waiting and lines of LULESH 2.0, counted on a trace; built for "
        f"{NEAREST[machine.name]}, the nearest to the processor that QEMU runs (for others: {others}). "
        "The poster does not say how it was built.",
    )


def _lulesh() -> list[dict[str, str]]:
    with (files("pagelens.reproduce") / "data" / "lulesh" / "counts.csv").open() as file:
        return list(csv.DictReader(file))


def _speedup(counts: Mapping[str, str], machine: Machine) -> float:
    """Return how much faster fast memory is: lines overlap with instructions, and with waiting for others."""
    assert machine.fast_memory is not None
    slow, fast = (
        max(
            float(counts["issue_cycles"]) / machine.cores.frequency.value
            + float(counts["waiting_lines"]) * memory.latency.value,
            LULESH_RANKS[machine.name] * float(counts["lines"]) * LINE_BYTES / memory.bandwidth.value,
        )
        for memory in (machine.ddr, machine.fast_memory)
    )
    return slow / fast - 1


def _developer(case: Case, lists: Floats, machine: str) -> Row:
    shares = np.zeros(len(case.profile.objects))
    shares[listed_objects(LISTS["hydro"], case.profile.objects)] = 1
    own = case.model.all_slow_s / case.model.seconds(shares) - 1
    published = BY_LIST[machine]
    below = float((lists <= published).mean())
    low, middle, high = np.quantile(lists, (0.05, 0.5, 0.95))  # the middle nine tenths
    relation = "<" if machine == KNL else ""
    return Row(
        f"What a developer's list gains, {MACHINES[machine]}",
        "poster 107, figure 1 and its text",
        Kind.SHOWN,
        value(f"{relation}{published:.0%}", speedup=published),
        value(
            f"{len(lists)} lists: {low:.1%} to {high:.1%}, median {middle:.1%}; {below:.0%} of them gain "
            f"{published:.0%} or less; positions, velocities, forces and nodes {own:.1%}",
            p5=low, median=middle, p95=high, share_below=below, plausible_list=own,
        ),
        remark="The temporaries of each step, on no list of lasting arrays, move "
        f"{_share_of_temporaries(case):.0%} of the lines.",
        decided_by="Which arrays the developer placed is not published. All lists of lasting arrays "
        f"gain {min(lists):.1%} to {max(lists):.1%}.",
    )  # fmt: skip


def _share_of_temporaries(case: Case) -> float:
    traffic = case.profile.traffic
    return float(
        traffic[[o.index for o in case.profile.objects if o.name in TEMPORARY]].sum() / traffic.sum()
    )


def _hmpt(cases: Sequence[Case]) -> Row:
    reached = {case.program: case.reached_at for case in cases}
    return Row(
        f"Share of the data that gives {MOST_OF_GAIN:.0%} of HBM's gain, Sapphire Rapids with HBM",
        "arXiv 2505.14294 (HMPT)",
        Kind.SHOWN,
        value(f"{HMPT[0]:.0%} to {HMPT[1]:.0%}", low=HMPT[0], high=HMPT[1]),
        value(", ".join(f"{name} {share:.0%}" for name, share in reached.items()), **reached),
        decided_by="The published share is of NAS benchmarks and k-Wave, by whole allocations, which are not "
        f"these programs. By the optimum, these reach it with {min(reached.values()):.0%} to "
        f"{max(reached.values()):.0%} of their data.",
    )


def _half(cases: Sequence[Case]) -> Row:
    gains = {(case.program, case.machine): case.gains(OURS)[HALF] for case in cases}
    text = "; ".join(
        f"{MACHINES[machine]}: "
        + ", ".join(f"{program} {gains[program, machine]:.0%}" for program in PROGRAMS)
        for machine in MACHINES
    )
    return Row(
        "Share of all fast's gain with fast memory for half of the footprint, by the optimum",
        "the poster's question",
        Kind.SHOWN,
        value("not published"),
        value(text, **{f"{program}_{machine}": gain for (program, machine), gain in gains.items()}),
        remark="The optimum is a bound for all static placements: what falls short of 90% cannot be had. "
        "Above 100%: both memories at work are faster than the fast one alone.",
    )


def _cache(cases: Sequence[Case]) -> Row:
    text, numbers = [], {}
    for case in cases:
        for mode in case.cache[-1:]:
            gains = case.model.gain(mode.at_random_s), case.model.gain(mode.in_a_row_s)
            text.append(f"{case.program} on {MACHINES[case.machine]} {min(gains):.0%} to {max(gains):.0%}")
            numbers[f"{case.program}_{case.machine}"] = max(gains)
    return Row(
        "Cache mode beside: share of all fast's gain, the largest cache that is no larger than the program",
        "the poster's question",
        Kind.SHOWN,
        value("not published"),
        value("; ".join(text), **numbers),
        remark="Between frames in a row and random frames, behind L2 and L3.",
    )


def _sweep_figure(cases: Mapping[tuple[str, str], Case]) -> Figure:
    figure = Figure((WIDTH, 6.4), layout="constrained")
    panels = figure.subplots(len(PROGRAMS), len(MACHINES), sharex=True, sharey=True)
    x = [100 * share for share in SWEEP]
    for (row, program), (column, machine) in product(enumerate(PROGRAMS), enumerate(MACHINES)):
        axes, case = panels[row][column], cases[program, machine]
        others = [name for name in case.sweep[0].shares if name != OURS]
        for name, colour in zip(others, OTHERS, strict=False):
            style = (0, (4, 2)) if name == DEVELOPER else "solid"
            axes.plot(
                x,
                [100 * gain for gain in case.gains(name)],
                color=colour,
                linewidth=0.9,
                linestyle=style,
                label=name,
            )
        axes.plot(x, [100 * gain for gain in case.gains(OURS)], color=BASELINE, linewidth=1.7, label=OURS)
        for mode in case.cache:
            at = 100 * mode.bytes / case.profile.ranks / case.profile.footprint_bytes
            gains = sorted(100 * case.model.gain(seconds) for seconds in (mode.at_random_s, mode.in_a_row_s))
            axes.plot([at, at], gains, color=FAINT, linewidth=3, solid_capstyle="butt")
        axes.axhline(100, color=FAINT, linewidth=0.5, linestyle=(0, (4, 3)))
        axes.set_ylim(-10, 140)
        axes.set_title(f"{PROGRAMS[program]}, {MACHINES[machine]}", fontsize=8)
    for axes in panels[-1]:
        axes.set_xlabel("fast memory, % of footprint")
    for axes in panels[:, 0]:
        axes.set_ylabel("% of all fast's gain")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _lists_figure(cases: Mapping[tuple[str, str], Case], lists: Mapping[str, Floats]) -> Figure:
    figure = Figure((WIDTH, 2.6), layout="constrained")
    for axes, (machine, gains) in zip(figure.subplots(1, len(lists)), lists.items(), strict=True):
        case = cases["hydro", machine]
        axes.hist(100 * gains, bins=40, color=OTHERS[0], alpha=0.8)
        axes.axvline(100 * BY_LIST[machine], color=OTHERS[5], linewidth=1.1, linestyle=(0, (4, 2)))
        axes.axvline(100 * (case.model.all_slow_s / case.model.all_fast_s - 1), color=BASELINE, linewidth=1.3)
        axes.set_title(f"{MACHINES[machine]} (right line: all in fast memory)", fontsize=8)
        axes.set_xlabel("speedup, %")
        axes.set_ylabel("lists")
    return figure


def _regions_figure(case: Case) -> Figure:
    """Draw the loops of the measured step, by the region that each belongs to."""
    objects = len(case.profile.objects)
    listed = np.zeros(objects)
    listed[listed_objects(LISTS["hydro"], case.profile.objects)] = 1
    ways = {
        "all in fast memory": (np.ones(objects), OTHERS[0]),
        "a developer's list": (listed, OTHERS[1]),
        "optimum, half the capacity": (case.sweep[HALF].shares[OURS], BASELINE),
    }
    step = np.flatnonzero(np.array(case.profile.phases) == "steps")
    regions = list(dict.fromkeys(LOOPS.values()))
    of_loop = list(LOOPS.values())
    slow = case.model.by_interval(np.zeros(objects))[step]
    figure = Figure((WIDTH, 2.4), layout="constrained")
    axes = figure.add_subplot()
    for number, (label, (shares, colour)) in enumerate(ways.items()):
        times = case.model.by_interval(shares)[step]
        gains = [
            100 * (slow[inside].sum() / times[inside].sum() - 1)
            for region in regions
            if (inside := np.array([name == region for name in of_loop])).any()
        ]
        axes.bar(np.arange(len(regions)) + 0.26 * (number - 1), gains, 0.24, color=colour, label=label)
    axes.set_xticks(range(len(regions)), regions)
    axes.set_ylabel("speedup, %")
    axes.legend(frameon=False)
    return figure


STUDY = Study(
    "placement",
    "Objects in two-level memory",
    "LLNL, poster 107 at SC16 on data placement in two-level memory; HMPT, arXiv 2505.14294",
    run,
    "Declared programs, ranks side by side; sizes are assumed. Times are modelled from one profile each "
    "(docs/place.md).",
)
