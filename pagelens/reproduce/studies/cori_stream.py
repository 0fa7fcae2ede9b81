"""STREAM after each job on Cori's nodes: the tail that grows, and the rule that reboots slow nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from pagelens import _core
from pagelens.accesses.declared import declared
from pagelens.frames import load_mix, parse_history
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import fleet_grain
from pagelens.frames.steps import Age, Step
from pagelens.machine import Machine
from pagelens.report.drawing import BASELINE, FAINT, OTHERS, WIDTH, drawing
from pagelens.reproduce.claim import Kind, Row, near, value
from pagelens.reproduce.context import StudyContext
from pagelens.reproduce.fleet import Floats, run_on
from pagelens.reproduce.study import Findings, Study

MACHINE = "cori-knl-cache"
MIX, OTHER_MIXES = "cori", ("llnl", "throughput", "capability")
BYTES = 12 << 30  # of STREAM's three arrays: the health check's are not published, and fit the cache
KERNEL = "4.4"  # docs/decisions/kernel-4.4.md
SORT = "drop_caches; compact; zonesort(intel)"  # of the node health check, and before every job
REBOOT_BELOW = 300e9  # the rule of Cori's node health check
SLOW = 340e9  # below the 350 to 360 of all nodes after a reboot by more than what separates these
HOURS = 3  # jobs since boot from which on a node has been up for several hours
TAIL, LOWEST = 0.18, 100e9  # the slow share of the figure's runs, and where its tail ends


@dataclass(frozen=True)
class _Life:
    """One node that runs a sequence of jobs."""

    mix: str
    node: int
    reboots: bool  # whether it is rebooted when STREAM falls below its limit


@dataclass(frozen=True)
class Check:
    """The result of STREAM after a job."""

    jobs_since_boot: int
    bandwidth: float  # bytes a second


def run(context: StudyContext) -> Findings:
    """Run nodes of each mix over as many jobs each, and those of Cori's mix once more with the rule."""
    nodes, jobs = context.pick(20, 1), context.pick(8, 2)
    mixes = (MIX, *context.beside(OTHER_MIXES))
    lives = [_Life(mix, node, False) for mix in mixes for node in range(nodes)]
    few = -(-nodes // 4)  # of the mixes that do not decide
    lives += [_Life(mix, node, True) for mix in mixes for node in range(few if mix != MIX else nodes)]
    machine = context.machine(MACHINE)
    stream = declared("stream-triad", BYTES, machine.cores.count.value)
    sort = parse_history(SORT)[1:]  # without the boot that is implied

    def bandwidth(state: _core.NodeState, node: int) -> float:
        placement = _core.place_by_kernel(state, 0)
        return run_on(machine, stream, placement, context, node).bandwidth

    def live(life: _Life) -> list[Check]:
        state = _Aging(machine, context.seed, life.node)
        checks = []
        for _ in range(jobs):
            state.take(*sort, Age(1, load_mix(life.mix)))
            state.take(*sort)
            checks.append(Check(state.node.jobs_since_boot, bandwidth(state.node.state, life.node)))
            if life.reboots and checks[-1].bandwidth < REBOOT_BELOW:
                state.node.boot(1, KERNEL)
        return checks

    def unsorted(part: tuple[str, int]) -> float:
        mix, node = part
        state = _Aging(machine, context.seed, node)
        state.take(Age(jobs, load_mix(mix)), *sort)
        return bandwidth(state.node.state, node)

    lived = context.map(live, lives)
    once = [(mix, node) for mix in mixes for node in range(nodes)]
    sorted_once = dict(zip(once, context.map(unsorted, once), strict=True))
    at_first = bandwidth(_Aging(machine, context.seed, 0).node.state, 0)
    found = {
        mix: [
            checks for life, checks in zip(lives, lived, strict=True) if life.mix == mix and not life.reboots
        ]
        for mix in mixes
    }
    ruled = {
        mix: [checks for life, checks in zip(lives, lived, strict=True) if life.mix == mix and life.reboots]
        for mix in mixes
    }
    rows = (
        Row(
            "STREAM triad after a reboot",
            "figure 5 and its text",
            Kind.INPUT,
            value("350-360 GB/s", low=350e9, high=360e9),
            value(f"{at_first / 1e9:.0f} GB/s", bandwidth=at_first),
            remark="The machine file's bandwidth of the cache is calibrated on it.",
        ),
        *(
            _tail(mix, found[mix], np.array([sorted_once[mix, node] for node in range(nodes)]))
            for mix in mixes
        ),
        _lowest(found),
        _growth(found),
        _rule(found, ruled),
    )
    return Findings(
        rows,
        (
            drawing(
                "cori-stream",
                "STREAM after each job, by jobs since the last boot",
                f"A dot a job and node, {nodes} nodes of each job mix, sorted before every job "
                "and before STREAM. The dashed line is the rule's. Modelled.",
                lambda: _figure(found),
            ),
        ),
    )


class _Aging:
    """A node, fresh at first, to which steps are done. Each step has draws of its own."""

    def __init__(self, machine: Machine, seed: int, number: int) -> None:
        self.node = LiveNode.fresh(machine, fleet_grain(machine.frames), 1.0, None)
        self._seed, self._number, self._position = seed, number, 0
        self.node.boot(1, KERNEL)

    def take(self, *steps: Step) -> None:
        for step in steps:
            step.run(self.node, _core.Random(self._seed, self._number, self._position, _core.Stream.history))
            self._position += 1


def _bandwidths(lives: Sequence[Sequence[Check]], least: int = 1, most: int = 1 << 30) -> Floats:
    return np.array([c.bandwidth for checks in lives for c in checks if least <= c.jobs_since_boot <= most])


def _slow(bandwidths: Floats) -> float:
    return float((bandwidths < SLOW).mean()) if len(bandwidths) else 0.0


def _tail(mix: str, lives: Sequence[Sequence[Check]], sorted_once: Floats) -> Row:
    found = _bandwidths(lives, least=HOURS)
    share = _slow(found)
    return Row(
        f"Measurements in the tail after several hours, mix {mix}",
        "figure 5 and its text",
        Kind.PREDICTED if mix == MIX else Kind.SHOWN,
        value("about 18%", share=TAIL),
        value(
            f"{share:.0%} of {len(found)}",
            share=share,
            share_sorted_once=_slow(sorted_once),
            lowest_sorted_once=sorted_once.min(),
        ),
        near(share, TAIL) if mix == MIX else None,
        f"Below {SLOW / 1e9:.0f} GB/s, from job {HOURS} since boot on. What stays of files when caches are "
        "dropped is drawn anew for each job; on lists that every job leaves sorted it lies close together. "
        f"Of nodes whose jobs ran on unsorted lists {_slow(sorted_once):.0%} are in the tail, down to "
        f"{sorted_once.min() / 1e9:.0f} GB/s.",
        decided_by="" if mix == MIX else "The jobs of Cori's nodes are not published; this is another mix.",
    )


def _lowest(found: Mapping[str, Sequence[Sequence[Check]]]) -> Row:
    lowest = {mix: float(_bandwidths(lives).min()) for mix, lives in found.items()}
    return Row(
        "The tail's end",
        "figure 5 and its text",
        Kind.PREDICTED,
        value("100 GB/s", bandwidth=LOWEST),
        value(
            ", ".join(f"{each / 1e9:.0f}" for each in lowest.values()) + f" GB/s ({', '.join(lowest)})",
            **{f"lowest_{mix}": each for mix, each in lowest.items()},
        ),
        near(lowest[MIX], LOWEST),
        f"Mix {MIX} decides.",
    )


def _growth(found: Mapping[str, Sequence[Sequence[Check]]]) -> Row:
    early = {mix: _slow(_bandwidths(lives, most=2)) for mix, lives in found.items()}
    late = {mix: _slow(_bandwidths(lives, least=HOURS)) for mix, lives in found.items()}
    return Row(
        "The tail grows while nodes stay up",
        "figure 5 and its text",
        Kind.PREDICTED,
        value("grows from none at reboot"),
        value(
            "; ".join(f"{mix} {early[mix]:.0%} to {late[mix]:.0%}" for mix in found),
            **{f"early_{mix}": share for mix, share in early.items()},
            **{f"late_{mix}": share for mix, share in late.items()},
        ),
        late[MIX] > early[MIX],
        f"Up to two jobs after the boot, and from {HOURS} on. Mix {MIX} decides.",
    )


def _below(lives: Sequence[Sequence[Check]]) -> float:
    return float((_bandwidths(lives) < REBOOT_BELOW).mean())


def _rule(
    plain: Mapping[str, Sequence[Sequence[Check]]], ruled: Mapping[str, Sequence[Sequence[Check]]]
) -> Row:
    before, after = _bandwidths(plain[MIX]), _bandwidths(ruled[MIX])
    reboots = int((after < REBOOT_BELOW).sum())
    slow = {"without": _below(plain[MIX]), "with": _below(ruled[MIX])}
    beside = {mix: nodes for mix, nodes in ruled.items() if mix != MIX}
    others = ", ".join(
        f"{mix} {_below(plain[mix][: len(nodes)]):.0%} without and {_below(nodes):.0%} with"
        for mix, nodes in beside.items()
    )
    few = max(map(len, beside.values()), default=0)
    return Row(
        "Nodes below 300 GB/s are rebooted: measurements below, without the rule and with it",
        "node reboot policy",
        Kind.PREDICTED,
        value("the degradation is eliminated"),
        value(
            f"{slow['without']:.0%} without, {slow['with']:.0%} with, for {reboots} reboots in {len(after)} "
            f"jobs; mean {before.mean() / 1e9:.0f} to {after.mean() / 1e9:.0f} GB/s",
            share_without=slow["without"],
            share_with=slow["with"],
            reboots_per_job=reboots / len(after),
        ),
        slow["without"] > 0 and slow["with"] <= slow["without"] / 2,
        "Eliminated: halved at least; where no node is slow there is nothing to show. Mix "
        f"{MIX} decides. Other mixes, {few} nodes each: {others}.",
    )


def _figure(found: Mapping[str, Sequence[Sequence[Check]]]) -> Figure:
    drawn = Figure((WIDTH, 2.8), layout="constrained")
    panels = drawn.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (mix, lives), colour in zip(panels, found.items(), (BASELINE, *OTHERS), strict=False):
        for number, checks in enumerate(lives):
            at = np.array([c.jobs_since_boot for c in checks]) + 0.5 * (number / len(lives) - 0.5)
            axes.plot(at, [c.bandwidth / 1e9 for c in checks], "o", color=colour, markersize=2.5, alpha=0.6)
        axes.axhline(REBOOT_BELOW / 1e9, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_title(f"mix {mix}", fontsize="medium")
        axes.set_xlabel("jobs since boot")
    panels[0].set_ylabel("STREAM triad, GB/s")
    panels[0].set_ylim(0, None)
    return drawn


STUDY = Study(
    "cori-stream",
    "STREAM after each job on Cori",
    "NERSC, KNL Cache Mode Performance, figure 5",
    run,
    "Machine cori-knl-cache with the allocator of Linux 4.4. Jobs are those of four mixes "
    "(pagelens/frames/mixes/), assumed; no study changes them. Sizes of the mix llnl follow a published "
    "share of small jobs. Intel's module sorts before every job, after caches are dropped and memory is "
    "compacted.",
)
