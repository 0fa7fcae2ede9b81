"""What follows: gains of remedies, assumed values that matter, the conclusion, the cost of a job."""

from typing import Literal

from pydantic import Field

from pagelens.explain.model.record import Record
from pagelens.explain.verdict import Verdict


class RemedyGain(Record):
    """What a policy that a user can choose gains over the baseline, on the same nodes: modelled."""

    policy: str
    title: str
    gain_median: float = Field(
        description="median time of the baseline over that of the policy: 2 is twice as fast"
    )
    gain_median_low: float = Field(
        description="95% interval, paired, by the choice of nodes and of what is simulated of the run"
    )
    gain_median_high: float
    gain_p95: float = Field(description="the same for the 95th percentile: the slow nodes")
    gain_p95_low: float
    gain_p95_high: float
    gain_worst: float = Field(description="the same for the worst node of each")
    gain_serial: float = Field(description="gain_median if nothing overlapped: the other bound of the time")
    gain_p95_serial: float = Field(default=1, description="the same of gain_p95")
    root: str = Field(description="what a system administrator must do; empty: nothing")
    memory: str = Field(description="memory it costs; empty: none")
    code: str = Field(description="change to the program or its start; empty: none")
    verdict: Verdict = Field(
        description="'gains' or 'costs': the median node by more than 2%, and its interval agrees; 'gains' "
        "also if only the slow nodes do, and the median node does not surely lose. 'none': by less. "
        "'unsure': by more, but its interval holds 1. 'bounds disagree': by one bound of the time it gains, "
        "by the other it costs"
    )


class Assumption(Record):
    """A value that the machine file assumes, and the values that leave the conclusion the same; modelled."""

    name: str = Field(description='such as "ddr.bandwidth"')
    value: str
    note: str = Field(description="stated: the reason of the assumption")
    tried_from: str = Field(description="the least of its range; a third of it if none is stated")
    tried_to: str = Field(description="the largest of its range; three times as much if none is stated")
    holds_from: str = Field(description="the conclusion is the same from here")
    holds_to: str = Field(description="the conclusion is the same up to here")
    below: str = Field(description="what holds below; empty if nothing changes down to tried_from")
    above: str = Field(description="what holds above; empty if nothing changes up to tried_to")
    range_is_stated: bool = Field(default=False, description="by the machine file")
    simulated: bool = Field(
        default=False,
        description="whether nodes were simulated again; if not, the times follow from the same counts",
    )
    gain_as_it_is: float = Field(default=1, description="of the advised remedy, else of the best one")
    gain_from: float = Field(default=1, description="the same at tried_from")
    gain_to: float = Field(default=1, description="the same at tried_to")


class Conclusion(Record):
    """The answer in words."""

    placement_matters: bool = Field(
        description="false when neither the node's history nor a remedy changes the time by more than 2%"
    )
    sentences: list[str]


class TimedRecord(Record):
    """The time of one copy of the program on this machine, beside the time modelled for it."""

    measured_s: list[float] = Field(description="measured: seconds of each run")
    of_kernel_s: list[float] = Field(
        description="measured: processor time of each run that the kernel used on the program's behalf"
    )
    clock: Literal["processor time", "elapsed time"] = Field(
        description="the kind of time in measured_s; it is processor time for a program of one thread"
    )
    modelled_s: float = Field(description="modelled: seconds of one copy on a node that has just booted")
    modelled_program_s: float | None = Field(
        default=None, description="modelled: the same without page faults, which are the kernel's work"
    )
    others_share: float | None = Field(
        default=None,
        description="measured: the share of all processors' time that other programs used meanwhile; null "
        "if it is not known",
    )
    by_pipeline: bool = Field(
        description="whether cycles are modelled by the instructions of the trace; else by the issue width"
    )


class JobWayRecord(Record):
    """One way to run a job on many nodes."""

    title: str
    policy: str
    left_out: int = Field(description="the number of spare nodes; as many of the slowest are left out")
    time_s: float = Field(description="modelled: expected time of the slowest node that is kept")
    time_low_s: float = Field(description="95% interval, bootstrap over nodes")
    time_high_s: float
    gain: float = Field(description="time of the job as it is over this one")
    gain_low: float = Field(description="95% interval, paired bootstrap over nodes")
    gain_high: float


class JobCostRecord(Record):
    """A job on many nodes that all wait for the slowest."""

    nodes: int = Field(description="the number of nodes of the job")
    of_nodes: int = Field(description="the number of nodes of the ensemble, from which the job's are drawn")
    median_s: float = Field(description="modelled: time of a median node under the baseline")
    lower_bound: bool = Field(
        description="whether the job has more nodes than the ensemble: then it costs at least this"
    )
    ways: list[JobWayRecord] = Field(description="the job as it is comes first")
