"""`pagelens site simulate`: what a policy costs and gains a site in a year, on modelled nodes.

Each node walks along one of the modelled lives: from job to job it becomes slower, and a reboot begins a new
life. Jobs take nodes at random, and are as slow as their slowest node. After each job STREAM is measured,
with noise and with disturbances that say nothing of the node, and the policy's rule may reboot the node.

All costs are inputs, and most of them are assumed. The result has them beside what they led to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagelens.errors import Interrupted, UsageError
from pagelens.site.decision import Rule, reference
from pagelens.site.fleet_model.ageing import Lives, lives
from pagelens.site.rules import NERSC_SHARE, Below, Cusum, Ewma, Watch

HOURS_A_YEAR = 8766
_NORMAL_95 = 1.96

Floats = NDArray[np.float64]
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Inputs:
    """The inputs of the simulation."""

    nodes: int = 9688  # Cori's KNL nodes
    jobs: int = 100  # the jobs of each node in a draw
    draws: int = 10
    job_hours: float = 2.0  # a job's hours at full speed; assumed
    sizes: Mapping[int, float] | None = None  # nodes of a job, and how much of the work has it; assumed
    memory_bound: float = 1.0  # the share of a job's time that waits for memory; assumed
    reboot_hours: float = 0.5  # from a node's drain to its next job; assumed
    sort_s: float = 3.0  # dropping caches, compaction and sorting before a job; assumed
    interval_s: float = 180.0  # the interval of periodic sorting that NERSC's users asked for
    interval_sort_s: float = 0.01  # each of these; assumed
    reallocated: float = 0.1  # the share of a job's memory that is allocated anew while it runs; assumed
    noise: float = 0.008  # standard deviation of STREAM's figure; assumed
    disturbed: float = 0.03  # the share of checks that are lowered to 30 to 90%; assumed
    seed: int = 1


SIZES = {1: 0.2, 16: 0.3, 128: 0.3, 1024: 0.2}


@dataclass(frozen=True)
class SitePolicy:
    """What is done to nodes."""

    name: str
    lives: str = "unsorted"  # lives of the table: unsorted, intel, or sorted
    interval: bool = False  # sorted while jobs run, too
    rule: Callable[[int], Watch] | None = None


def site_policies(rule: Rule) -> Sequence[SitePolicy]:
    """Return the policies that are compared.

    The first is the one that the others are compared with. An asterisk marks Cori's.
    """

    def below(nodes: int) -> Watch:
        return Below(nodes, NERSC_SHARE)

    return (
        SitePolicy("nothing"),
        SitePolicy("reboot below 300 of 355", rule=below),
        SitePolicy("Intel's sort", "intel"),
        SitePolicy("Intel's, reboot below 300 *", "intel", rule=below),
        SitePolicy("sort", "sorted"),
        SitePolicy("sort, also each 180 s", "sorted", interval=True),
        SitePolicy("sort, reboot below 300", "sorted", rule=below),
        SitePolicy("sort, reboot at 3 in a row", "sorted", rule=lambda nodes: Below(nodes, NERSC_SHARE, 3)),
        SitePolicy("sort, reboot by EWMA", "sorted", rule=Ewma),
        SitePolicy("sort, reboot by CUSUM", "sorted", rule=lambda nodes: Cusum(nodes, rule)),
    )


@dataclass(frozen=True)
class Figure:
    """The mean over the draws, and its 95% interval."""

    value: float
    low: float
    high: float

    @staticmethod
    def of(values: Floats) -> Figure:
        """Return the figure of some draws.

        Each draw resamples the lives and draws the jobs anew, so the spread of the draws is that of the
        answer.
        """
        mean, width = float(values.mean()), _NORMAL_95 * float(values.std(ddof=1)) if len(values) > 1 else 0.0
        return Figure(mean, mean - width, mean + width)


@dataclass(frozen=True)
class PolicyRecord:
    """The result of a policy, in node hours a year of the whole site."""

    name: str
    slow_jobs: Figure  # lost because jobs wait for memory and for their slowest node
    sorting: Figure
    reboots: Figure
    reboots_a_day: Figure
    gain: Figure  # node hours a year more than with the first policy
    slow_share: Figure  # the share of the checks below NERSC's threshold


@dataclass(frozen=True)
class Simulated:
    """The results of all policies, and the inputs."""

    inputs: Inputs
    policies: list[PolicyRecord]
    tail_share: float  # share of STREAM runs after 3 jobs or more with Intel's sort below 340 of 355 GB/s
    sort_gain: float  # mean speed of MiniFE with sorting over without, after three jobs or more
    intel_gain: float  # the same with Intel's module

    def to_json(self) -> dict[str, Any]:
        """Return everything by name."""
        return {"schema": "pagelens site simulate", "version": 1, **asdict(self)}


def simulate_site(inputs: Inputs, rule: Rule, report: Report = lambda done, total: None) -> Simulated:
    """Compare all policies. Raises UsageError for inputs without jobs or nodes."""
    for name, value in (("nodes", inputs.nodes), ("jobs", inputs.jobs), ("draws", inputs.draws)):
        if value < 1:
            raise UsageError(f"--{name} {value}: at least 1")
    inputs = replace(inputs, sizes=inputs.sizes or SIZES)
    policies = site_policies(rule)
    found = np.empty((len(policies), inputs.draws, 5))
    done = 0
    try:
        for draw in range(inputs.draws):
            for number, policy in enumerate(policies):
                found[number, draw] = _year(inputs, policy, np.random.default_rng([inputs.seed, draw]))
                report(number + 1 + draw * len(policies), inputs.draws * len(policies))
            done = draw + 1
    except KeyboardInterrupt:
        if done == 0:
            raise Interrupted("site simulate: stopped before the first draw was complete") from None
        inputs = replace(inputs, draws=done)
    return _summary(inputs, policies, found[:, :done])


def _summary(inputs: Inputs, policies: Sequence[SitePolicy], found: Floats) -> Simulated:
    lost = found[:, :, :3].sum(axis=2)
    records = [
        PolicyRecord(
            name=policy.name,
            slow_jobs=Figure.of(of[:, 0]),
            sorting=Figure.of(of[:, 1]),
            reboots=Figure.of(of[:, 2]),
            reboots_a_day=Figure.of(of[:, 3]),
            gain=Figure.of(lost[0] - lost[number]),
            slow_share=Figure.of(of[:, 4]),
        )
        for number, (policy, of) in enumerate(zip(policies, found, strict=True))
    ]
    table = lives()
    speed = {name: float((1 / of.job[:, 3:]).mean()) for name, of in table.items()}
    return Simulated(
        inputs,
        records,
        tail_share=float((table["intel"].stream[:, 3:] > 355 / 340).mean()),
        sort_gain=speed["sorted"] / speed["unsorted"],
        intel_gain=speed["intel"] / speed["unsorted"],
    )


def _year(inputs: Inputs, policy: SitePolicy, rng: np.random.Generator) -> Floats:
    """Return what a year costs.

    These are node hours lost in slow jobs, sorting and reboots, reboots a day, and the share of slow checks.
    """
    table = lives()
    own, unsorted = table[policy.lives], table["unsorted"]
    among = rng.integers(0, len(own.stream), len(own.stream))  # a bootstrap over the lives
    nodes = inputs.nodes
    life, age = among[rng.integers(0, len(among), nodes)], np.zeros(nodes, dtype=np.int64)
    watch = policy.rule(nodes) if policy.rule else None
    slow_hours = sort_hours = 0.0
    reboots = low = 0
    for _ in range(inputs.jobs):
        column = _column(own, age, rng)
        slowdown = own.job[life, column]
        if not policy.interval:  # what is allocated while the job runs finds lists not sorted since
            rest = unsorted.job[life, column]
            slowdown = (1 - inputs.reallocated) * slowdown + inputs.reallocated * rest
        slow_hours += _waiting(inputs, 1 + inputs.memory_bound * (slowdown - 1), rng)
        sort_hours += _sorting(inputs, policy, nodes)
        age += 1
        share = _measured(inputs, own.stream[life, _column(own, age, rng)], rng)
        low += int((share < NERSC_SHARE).sum())
        if watch is not None:
            peers = reference(share, np.arange(nodes), 2)
            z = peers.z(share) if peers else np.zeros(nodes)
            alarms = watch.step(z, share)
            count = int(alarms.sum())
            reboots += count
            age[alarms] = 0
            life[alarms] = among[rng.integers(0, len(among), count)]
    work = nodes * inputs.jobs * inputs.job_hours
    reboot_hours = reboots * inputs.reboot_hours
    total = work + slow_hours + sort_hours + reboot_hours
    to_year = nodes * HOURS_A_YEAR / total
    days = total / nodes / 24
    return np.array(
        [
            slow_hours * to_year,
            sort_hours * to_year,
            reboot_hours * to_year,
            reboots / days,
            low / (nodes * inputs.jobs),
        ]
    )


def _column(of: Lives, age: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the table's job for each node.

    It is the node's age, or one of the last three jobs if the node is older than the table.
    """
    late = of.last - rng.integers(0, min(3, of.last), len(age))
    return np.where(age <= of.last, age, late)


def _waiting(inputs: Inputs, slowdown: Floats, rng: np.random.Generator) -> float:
    """Return the node hours lost by jobs on all nodes. Each job waits for the slowest of its nodes."""
    assert inputs.sizes is not None
    sizes, work = np.array(list(inputs.sizes)), np.array(list(inputs.sizes.values()))
    sizes = np.minimum(sizes, len(slowdown))
    chances = work / sizes / (work / sizes).sum()
    # Enough jobs to fill the machine; the last one takes the nodes that are left.
    mean = float((sizes * chances).sum())
    drawn = np.cumsum(rng.choice(sizes, int(4 * len(slowdown) / mean) + 64, p=chances))
    begins = np.concatenate([[0], drawn[drawn < len(slowdown)]])
    slowest = np.maximum.reduceat(slowdown[rng.permutation(len(slowdown))], begins)
    lengths = np.diff(np.append(begins, len(slowdown)))
    return float((lengths * (slowest - 1)).sum() * inputs.job_hours)


def _sorting(inputs: Inputs, policy: SitePolicy, nodes: int) -> float:
    if policy.lives == "unsorted":
        return 0.0
    seconds = inputs.sort_s
    if policy.interval:
        seconds += inputs.interval_sort_s * inputs.job_hours * 3600 / inputs.interval_s
    return nodes * seconds / 3600


def _measured(inputs: Inputs, slowdown: Floats, rng: np.random.Generator) -> Floats:
    """Return STREAM's speed as a share of what a node reaches after a boot."""
    share = (1 + inputs.noise * rng.standard_normal(len(slowdown))) / slowdown
    disturbed = rng.random(len(share)) < inputs.disturbed
    share[disturbed] *= rng.uniform(0.3, 0.9, int(disturbed.sum()))
    return np.asarray(share)
