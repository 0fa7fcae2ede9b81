"""The cost of a job on many nodes that all wait for the slowest, as bulk-synchronous programs do.

The times of the job's nodes are independent draws from the ensemble's. With n nodes sorted by time, the
slowest of N draws takes at most the i-th time with probability (i/n)^N. If k spare nodes are drawn, too, and
the k slowest are left out, it is the probability that at most k draws lie beyond, which is binomial. So
expectations are weighted sums over the sorted times, without any simulation (David, Nagaraja: Order
Statistics, 2003, 2.1).

No draw is slower than the slowest node of the ensemble. A job of more nodes than the ensemble has meets rarer
nodes, so its cost is then a lower bound, and is called so.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pagelens.errors import UsageError
from pagelens.explain.model import JobCostRecord, JobWayRecord
from pagelens.statistics import BOOTSTRAP_RESAMPLES, CONFIDENCE
from pagelens.units import format_time

MOST_NODES = 1_000_000
SPARE_SHARES = (0.0, 0.01, 0.05)  # of the job's nodes that are left out; the first is a single one

Floats = NDArray[np.float64]


def job_cost(
    times: Mapping[str, Floats], baseline: str, nodes: int, titles: Mapping[str, str], seed: int
) -> JobCostRecord:
    """Return the cost of the job as it is, without its slowest nodes, and under each remedy.

    `times` has each policy's times by node. Raises UsageError if the ensemble is too small to have a slow
    node, or if the job has no nodes.
    """
    if not 1 <= nodes <= MOST_NODES:
        raise UsageError(f"--job-nodes {nodes}: a job has 1 to {MOST_NODES} nodes")
    count = len(times[baseline])
    if count < 2:
        raise UsageError(f"--job-nodes: {count} node was simulated; take at least two with --nodes")
    picks = {  # policies with as many nodes have the same ones
        size: np.random.default_rng(seed).integers(0, size, size=(BOOTSTRAP_RESAMPLES, size))
        for size in {len(of) for of in times.values()}
    }
    resampled = {policy: np.sort(of[picks[len(of)]], axis=1) for policy, of in times.items()}
    plain = _weights(count, nodes, 0)
    before = resampled[baseline] @ plain
    value = float(np.sort(times[baseline]) @ plain)
    ways = []
    for policy, spare, title in _ways(times, baseline, nodes, titles):
        weights = _weights(len(times[policy]), nodes, spare)
        after = resampled[policy] @ weights
        expected = float(np.sort(times[policy]) @ weights)
        low, high = _interval(after)
        gain_low, gain_high = _interval(before / after)
        ways.append(
            JobWayRecord(
                title=title,
                policy=policy,
                left_out=spare,
                time_s=expected,
                time_low_s=low,
                time_high_s=high,
                gain=value / expected,
                gain_low=gain_low,
                gain_high=gain_high,
            )
        )
    return JobCostRecord(
        nodes=nodes,
        of_nodes=count,
        median_s=float(np.median(times[baseline])),
        lower_bound=nodes > count,
        ways=ways,
    )


def _ways(
    times: Mapping[str, Floats], baseline: str, nodes: int, titles: Mapping[str, str]
) -> Iterator[tuple[str, int, str]]:
    """Yield a policy, the nodes left out, and words for it. The job as it is comes first."""
    yield baseline, 0, "as it is"
    for spare in sorted({max(1, math.ceil(share * nodes)) for share in SPARE_SHARES}):
        yield baseline, spare, f"leave out the slowest {spare:,} of {nodes + spare:,}"
    for policy in times:
        if policy != baseline and policy in titles:
            yield policy, 0, f"'{policy}' on every node first"


def _weights(count: int, nodes: int, spare: int) -> Floats:
    """Return for each of `count` sorted times how likely it is that of the slowest of `nodes` kept nodes."""
    from scipy.special import bdtr  # takes a fifth of a second to import

    beyond = 1 - np.arange(count + 1) / count
    return np.diff(np.asarray(bdtr(spare, nodes + spare, beyond), dtype=np.float64))


def _interval(values: Floats) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def job_cost_in_words(cost: JobCostRecord) -> Sequence[str]:
    """Return the answer, and how far it can be trusted."""
    first = cost.ways[0]
    share = first.time_s / cost.median_s - 1
    least = "at least " if cost.lower_bound else ""
    words = [
        f"A job on {cost.nodes:,} nodes that wait for the slowest one takes {least}"
        f"{format_time(first.time_s)} (95%: {format_time(first.time_low_s)} to "
        f"{format_time(first.time_high_s)}), {least}{100 * share:.1f}% more than a median node: "
        f"{least}{share * cost.nodes:,.0f} node hours are lost in each hour of work."
    ]
    if cost.lower_bound:
        words.append(
            f"It meets nodes rarer than 1 in {cost.of_nodes}, which this ensemble does not have; --nodes "
            f"{cost.nodes} would."
        )
    return words
