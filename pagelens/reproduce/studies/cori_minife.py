"""MiniFE on Cori's nodes in cache mode: misses against performance, and what zonesort changes."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from pagelens.accesses.declared import declared
from pagelens.frames import Node, parse_history
from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import Floats, PhaseRun, columns, run_policies
from pagelens.reproduce.study import Findings, Study

MACHINE, WORKLOAD = "cori-knl-cache", "minife-solve"
BOOT = "boot(kernel=4.4)"  # docs/decisions/kernel-4.4.md
GIB = 1 << 30
PUBLISHED_BYTES = 17_600_000_000  # 1.024 of 16 GiB
TENTH_MORE = round(1.10 * 16 * GIB)  # "slightly (10%) larger than the cache"
WITHOUT, INTEL, OURS = "aged", "aged+intel-zonesort", "aged+zonesort"
MIX, OTHER_MIXES = "cori-early", ("cori", "llnl", "throughput", "capability")
FOOTPRINTS = (8 * GIB, 12 * GIB, 15 * GIB)  # that fit the cache: half, three quarters, nearly all of it

Fleet = Mapping[tuple[int, str], Mapping[str, Floats]]  # of (bytes, policy): a value a node
_Key = tuple[str, int, str]  # mix, bytes, policy


def run(context: StudyContext) -> Findings:
    """Run the same nodes at every size, with and without zonesort."""
    nodes, few = context.pick(48, 3), context.pick(6, 1)
    cells = (  # size, policies, on how many of the nodes
        (PUBLISHED_BYTES, (WITHOUT, INTEL), nodes),
        (PUBLISHED_BYTES, (OURS,), few),
        (TENTH_MORE, (WITHOUT, INTEL), nodes),
        *((size, (WITHOUT, INTEL), context.pick(24, 1)) for size in FOOTPRINTS),
    )
    parts = [(MIX, node, [cell[:2] for cell in cells if node < cell[2]]) for node in range(nodes)]
    of_others: list[tuple[int, tuple[str, ...]]] = [
        (PUBLISHED_BYTES, (WITHOUT, INTEL, OURS)),
        *((size, (WITHOUT, INTEL)) for size in (TENTH_MORE, *FOOTPRINTS)),
    ]
    other_mixes = context.beside(OTHER_MIXES)
    parts += [(mix, node, of_others) for mix in other_mixes for node in range(few)]
    machine = context.machine(MACHINE)
    workloads = {size: declared(WORKLOAD, size, machine.cores.count.value) for size, _, _ in cells}

    def simulate(part: tuple[str, int, list[tuple[int, tuple[str, ...]]]]) -> dict[_Key, PhaseRun]:
        mix, node, cells = part
        state = Node(machine, context.seed, node, history=parse_history(f"{BOOT}; age(mix={mix}); run"))
        return {
            (mix, size, policy): run
            for size, policies in cells
            for policy, run in run_policies(policies, machine, workloads[size], state, context).items()
        }

    gathered: dict[_Key, list[PhaseRun]] = {}
    for found in context.map(simulate, parts):
        for key, each in found.items():
            gathered.setdefault(key, []).append(each)
    fleet = {key[1:]: columns(each) for key, each in gathered.items() if key[0] == MIX}
    others = {
        mix: {key[1:]: columns(each) for key, each in gathered.items() if key[0] == mix}
        for mix in other_mixes
    }
    without = fleet[PUBLISHED_BYTES, WITHOUT]
    rows = (
        _spread(fleet, others),
        _mean(without),
        _correlation(without),
        _points(without),
        _doubled(fleet, PUBLISHED_BYTES, INTEL, "by Intel's module", others),
        _doubled(fleet, PUBLISHED_BYTES, OURS, "by this project's rule", others),
        _doubled(fleet, TENTH_MORE, INTEL, "by Intel's module, 1.10 of the cache", others),
        _narrower(fleet, others),
        _footprint(fleet, others),
        _two_way(without),
    )
    figures = (
        drawing(
            "cori-minife-misses",
            "MiniFE: misses of the memory-side cache and performance, a dot a node",
            f"{len(without['lines'])} nodes of mix {MIX}, {PUBLISHED_BYTES / 1e9:.1f} GB, iterations of the "
            "solver. Misses counted, performance modelled: lines past L2 x 64 B / time.",
            lambda: _scatter(fleet),
        ),
        drawing(
            "cori-minife-zonesort",
            "MiniFE: performance with and without zonesort",
            "The same nodes, sorted before the run after dropping caches and compaction. Modelled.",
            lambda: _histogram(fleet),
        ),
    )
    return Findings(rows, figures)


def _spread(fleet: Fleet, others: Mapping[str, Fleet]) -> Row:
    """Compare the spread of misses over the nodes.

    The ratio is bounded: a cyclic sweep of x caches misses at least 2 (x - 1) / x of its lines.
    """

    def ratio(misses: Floats) -> float:
        return float(misses.max() / misses.min())

    at = {size: ratio(fleet[size, WITHOUT]["misses"]) for size in (PUBLISHED_BYTES, TENTH_MORE)}
    nodes = len(fleet[PUBLISHED_BYTES, WITHOUT]["misses"])
    excess = {size: size / (16 * GIB) for size in at}  # over the cache
    most = {size: x / (2 * (x - 1)) for size, x in excess.items()}
    of_others = "; ".join(
        f"mix {mix} {ratio(found[size, WITHOUT]['misses']):.1f}x at {excess[size]:.3g} of the cache"
        for size in at
        for mix, found in others.items()
    )
    return Row(
        "Misses of the worst node over those of the best",
        "figure 1 and its text",
        Kind.SHOWN,
        value("up to 10x", ratio=10),
        value(
            "; ".join(f"{found:.1f}x at {excess[size]:.3g} of the cache" for size, found in at.items())
            + f" ({nodes} nodes)",
            ratio=at[PUBLISHED_BYTES],
            ratio_tenth_more=at[TENTH_MORE],
        ),
        remark="No placement gives more than "
        + " and ".join(f"{most[size]:.1f}x at {excess[size]:.3g} of the cache" for size in at)
        + f", where all other nodes miss every line. Others: {of_others}.",
        decided_by="What the sweeps of a rank touch, the iterations, and which part of the run the counters "
        f"saw are not published. The ratio is {at[TENTH_MORE]:.1f}x for a tenth more than the cache and "
        f"{at[PUBLISHED_BYTES]:.1f}x for 17.6e9 bytes.",
    )


def _mean(without: Mapping[str, Floats]) -> Row:
    mean = float(without["bandwidth"].mean())
    return Row(
        "Mean performance without zonesort",
        "text of figure 4",
        Kind.SHOWN,
        value("21 GB/s", bandwidth=21e9),
        value(f"{mean / 1e9:.0f} GB/s past L2, all cores", bandwidth=mean),
        decided_by="What the publication counts as a byte, and on how many cores, is not said. On one of 68 "
        f"cores it would be {mean / 68e9:.1f} GB/s.",
    )


def _correlation(without: Mapping[str, Floats]) -> Row:
    r = float(np.corrcoef(without["misses"], without["bandwidth"])[0, 1])
    return Row(
        "Misses and performance of a node are correlated",
        "figure 1",
        Kind.DERIVED,
        value("strongly, negatively"),
        value(f"r = {r:.3f}", r=r),
        r <= -0.9,
        "Strongly: r <= -0.9. Here only misses and what they write back differ between nodes.",
    )


def _points(without: Mapping[str, Floats]) -> Row:
    misses, bandwidth = without["misses"] / without["lines"], without["bandwidth"] / 1e9
    line = np.polyval(np.polyfit(misses, bandwidth, 1), misses)
    off = float(np.abs(line / bandwidth - 1).max())
    return Row(
        "Misses and performance, node by node",
        "figure 1",
        Kind.SHOWN,
        value("256 jobs in a picture without figures"),
        value(
            f"{misses.min():.0%} to {misses.max():.0%} of lines missed, {bandwidth.max():.0f} to "
            f"{bandwidth.min():.0f} GB/s; a straight line is off by {off:.0%} at most",
            off=off,
        ),
        remark="The error of the curve is not known, because its points are not available as figures.",
    )


def _gain(fleet: Fleet, size: int, policy: str) -> tuple[float, Floats, Floats]:
    """Return the ratio of the mean bandwidths, and the bandwidths of the same nodes without and with."""
    after = fleet[size, policy]["bandwidth"]
    before = fleet[size, WITHOUT]["bandwidth"][: len(after)]
    return float(after.mean() / before.mean()), before, after


def _doubled(fleet: Fleet, size: int, policy: str, whose: str, others: Mapping[str, Fleet]) -> Row:
    ratio, before, after = _gain(fleet, size, policy)
    of_others = {mix: _gain(found, size, policy)[0] for mix, found in others.items()}
    aged = before < 0.75 * before.max()
    of_aged = float((after[aged] / before[aged]).mean()) if aged.any() else float("nan")
    holds = near(ratio, 2)
    rest = f"; those that are not gain {of_aged:.2f}x" if aged.any() else ""
    reason = f"{1 - aged.mean():.0%} of this mix's nodes are as good as fresh and have little to gain{rest}."
    module = (
        " The module puts the blocks of a bucket in falling order of address, so a job larger than what is "
        "left of the first bucket meets its own slots again."
    )
    told = ", ".join(f"{mix} {each:.2f}x" for mix, each in of_others.items())
    return Row(
        f"Mean performance with zonesort over that without, sorted {whose}",
        "figure 4 and its text",
        Kind.PREDICTED,
        value("doubled", ratio=2),
        value(f"{ratio:.2f}x", ratio=ratio, ratio_of_aged=of_aged),
        holds,
        ("" if holds else reason + (module if policy == INTEL else "") + " ") + f"Other mixes: {told}.",
    )


def _narrower(fleet: Fleet, others: Mapping[str, Fleet]) -> Row:
    def deviation(of: Fleet, policy: str) -> float:
        found = of[PUBLISHED_BYTES, policy]["bandwidth"]
        return float(found.std() / found.mean())

    spread = {policy: deviation(fleet, policy) for policy in (INTEL, OURS, WITHOUT)}
    told = ", ".join(
        f"{mix} {deviation(of, INTEL):.2f} of {deviation(of, WITHOUT):.2f}" for mix, of in others.items()
    )
    return Row(
        "Standard deviation of performance over its mean, with zonesort and without",
        "figure 4 and its text",
        Kind.PREDICTED,
        value("greatly reduced"),
        value(
            f"{spread[INTEL]:.2f} (Intel's module), {spread[OURS]:.2f} (this project's rule), "
            f"{spread[WITHOUT]:.2f} without",
            **{f"spread_{name}": share for name, share in spread.items()},
        ),
        spread[INTEL] <= spread[WITHOUT] / 2,
        f"Greatly: by half, with the module that Cori had. Other mixes: {told} without.",
    )


def _footprint(fleet: Fleet, others: Mapping[str, Fleet]) -> Row:
    sizes = (*FOOTPRINTS, PUBLISHED_BYTES)
    nodes = len(fleet[FOOTPRINTS[0], WITHOUT]["lines"])
    missed = {
        policy: [1 - float(fleet[size, policy]["hit_share"][:nodes].mean()) for size in sizes]
        for policy in (WITHOUT, INTEL)
    }
    of_nodes = {
        policy: [1 - fleet[size, policy]["hit_share"][:nodes] for size in sizes]
        for policy in (WITHOUT, INTEL)
    }
    falls = all(
        _sure(small, large) >= 0 for shares in of_nodes.values() for small, large in pairwise(shares)
    ) and all(_sure(shares[0], shares[-1]) > 0 for shares in of_nodes.values())
    fit = list(zip(of_nodes[INTEL][:-1], of_nodes[WITHOUT][:-1], strict=True))
    sorted_less = all(_sure(*pair) >= 0 for pair in fit) and any(_sure(*pair) > 0 for pair in fit)

    def listed(policy: str) -> str:
        return ", ".join(f"{share:.1%}" for share in missed[policy])

    def of_other(found: Fleet, policy: str) -> str:
        return ", ".join(f"{1 - found[size, policy]['hit_share'].mean():.1%}" for size in sizes)

    told = "; ".join(
        f"{mix} without {of_other(found, WITHOUT)}, with {of_other(found, INTEL)}"
        for mix, found in others.items()
    )
    return Row(
        "Lines missed by jobs of less than 16 GiB: fewer, the more so after zonesort",
        "recommendations",
        Kind.PREDICTED,
        value("fewer conflicts, particularly with zonesort"),
        value(
            f"without {listed(WITHOUT)}; with Intel's module {listed(INTEL)} (8, 12, 15, 16.4 GiB)",
            **{
                f"{name}_{size}_bytes": share
                for name in missed
                for size, share in zip(sizes, missed[name], strict=True)
            },
        ),
        falls and sorted_less,
        f"Means over {nodes} nodes. Compared on the same nodes: no size and no sort may be the wrong way "
        "round by more than two standard errors, and the smallest size and the sort at one size must differ "
        "by more than that."
        + (
            ""
            if falls and sorted_less
            else " Intel's module helps where a job fits its first bucket: that is the cache without the "
            "slots that zone DMA32 counts for."
        )
        + f" Other mixes: {told}.",
    )


def _sure(less: Floats, more: Floats) -> int:
    """Return 1 if `more` is larger on the same nodes, -1 if it is smaller, else 0.

    A difference counts if it exceeds two standard errors.
    """
    difference = more - less
    error = float(difference.std(ddof=1)) / len(difference) ** 0.5 if len(difference) > 1 else 0.0
    mean = float(difference.mean())
    return 0 if abs(mean) <= 2 * error else (1 if mean > 0 else -1)


def _two_way(without: Mapping[str, Floats]) -> Row:
    direct = float(without["hit_share"].mean())
    two = float((1 - without["two_way_misses"] / without["lines"]).mean())
    return Row(
        "A cache of two ways over a direct-mapped one: probability that a line is found",
        "figure 3 and its text",
        Kind.SHOWN,
        value("essentially doubled", ratio=2),
        value(f"{two / direct:.2f}x ({direct:.0%} to {two:.0%})", ratio=two / direct),
        remark="A loop that sweeps over three lines of a set of two misses them all, and most lines have a "
        "place of their own already.",
        decided_by="The sentence explains associativity by a heavily used variable, and names no program. A "
        "line that is used between any two uses of its rival is always found in two ways and never in one; "
        f"the lines of MiniFE's sweeps are found {two / direct:.2f} times as often.",
    )


def _scatter(fleet: Fleet) -> Figure:
    drawn = Figure((WIDTH, 3.0), layout="constrained")
    axes = drawn.add_subplot()
    for policy, colour, text in (
        (OURS, OTHERS[0], "this project's zonesort"),
        (INTEL, OTHERS[1], "Intel's zonesort"),
        (WITHOUT, BASELINE, "without"),
    ):
        found = fleet[PUBLISHED_BYTES, policy]
        axes.plot(
            found["misses"] / 1e6,
            found["bandwidth"] / 1e9,
            "o",
            color=colour,
            markersize=3.5,
            alpha=0.6,
            label=text,
        )
    axes.set_xlabel("misses an iteration (millions of lines)")
    axes.set_ylabel("GB/s")
    axes.set_xlim(0, None)
    axes.set_ylim(0, None)
    axes.grid(color=FAINT, linewidth=0.3)
    axes.legend(frameon=False)
    return drawn


def _histogram(fleet: Fleet) -> Figure:
    drawn = Figure((WIDTH, 2.8), layout="constrained")
    axes = drawn.add_subplot()
    found = [fleet[PUBLISHED_BYTES, policy]["bandwidth"] / 1e9 for policy in (WITHOUT, INTEL, OURS)]
    bins = np.arange(0, max(each.max() for each in found) + 20, 20)
    axes.hist(
        found,
        bins=bins.tolist(),
        color=[BASELINE, OTHERS[1], OTHERS[0]],
        label=["without", "Intel's zonesort", "this project's zonesort"],
    )
    axes.set_xlabel("GB/s")
    axes.set_ylabel("nodes")
    axes.legend(frameon=False)
    return drawn


STUDY = Study(
    "cori-minife",
    "MiniFE on Cori: cache thrashing, and zonesort against it",
    "NERSC, KNL Cache Mode Performance, figures 1, 3 and 4",
    run,
    "Machine cori-knl-cache with the allocator of Linux 4.4; nodes of job mix cori-early, which no health "
    "check reboots: NERSC added its check after these figures. The matrix, vectors and iterations of MiniFE "
    "from the assembled matrix on. Page walks are left out.",
)
