"""Computes what a job on many nodes costs if all of them wait for the slowest."""

from pagelens.ensemble import Ensemble
from pagelens.explain import JobCostRecord, job_cost_in_words
from pagelens.explain.intervals import Intervals
from pagelens.explain.job_cost import job_cost as cost_of


class JobCost(JobCostRecord):
    """The cost of the job as it is, without its slowest nodes, and under each remedy, as `ways`."""

    def __repr__(self) -> str:
        return " ".join(job_cost_in_words(self))

    __str__ = __repr__


def job_cost(ensemble: Ensemble, nodes: int) -> JobCost:
    """Return what a bulk-synchronous job on so many nodes costs, and what leaving out slow nodes would gain.

    The job's nodes are drawn from the ensemble's, so an ensemble of fewer nodes gives a lower bound.

    >>> w, m = workload("stream-triad", size="300MB"), machine("cori-knl-cache")
    >>> e = simulate(w, m, policies=["aged", "2m"], nodes=2, progress=False)
    >>> [way.title for way in job_cost(e, 100).ways][:2]
    ['as it is', 'leave out the slowest 1 of 101']
    """
    times = Intervals(ensemble).times
    titles = {name: policy.title for name, policy in ensemble.policies.items() if policy.remedy is not None}
    return JobCost(**dict(cost_of(times, ensemble.baseline, nodes, titles, ensemble.seed)))
