"""The program, the machine and the sample of an explanation."""

from typing import Literal

from pydantic import Field

from pagelens.explain.model.record import Record


class RankSpread(Record):
    """A count that the traced ranks of a job have, each its own: counted."""

    name: str
    least: float
    median: float
    most: float


class RankWaitRecord(Record):
    """How long a traced rank of a job waits for the others: modelled, as shares of the job's time."""

    rank: int
    share: float = Field(description="of the time that cores are busy or wait for other ranks")
    longest_for: int = Field(description="the rank for which it waits longest")
    share_for: float = Field(description="of the same time, what it waits for that rank")


class JobRecord(Record):
    """A job whose ranks were traced one by one."""

    traced_ranks: int = Field(description="each other rank is a copy of one of these")
    spreads: list[RankSpread] = Field(description="how much the traced ranks differ")
    waits: list[RankWaitRecord] = Field(
        default_factory=list, description="of the ranks that wait for others, at the baseline's median node"
    )
    statements: list[str] = Field(description="what is taken to be so")
    binding: list[str] = Field(
        default_factory=list,
        description="how the launcher's binding of the ranks differs from the model's, or that it does not; "
        "empty if a trace does not say",
    )
    crowding: float = Field(
        default=1,
        description="counted: how many times as long the job takes if its ranks share cores as they did "
        "while they were traced; 1 if they do not",
    )


class ProgramRecord(Record):
    """The program that was explained."""

    name: str
    source: Literal["trace", "declared"]
    footprint_bytes: int = Field(
        description="counted: peak resident bytes of one rank; their mean if the ranks differ"
    )
    threads: int
    working_threads: float | None = Field(
        default=None,
        description="modelled: how many of the threads work at a time while others wait for them, on average "
        "at the baseline's median node; null if there is one thread, if declared, and for jobs",
    )
    ranks: int = Field(description="stated: copies of the program on a node, each with its own pages")
    job: JobRecord | None = Field(
        default=None, description="null unless several ranks were traced, each for itself"
    )
    phase: str | None = Field(description="stated: the phase looked at; null for the whole run")
    phases: list[str]
    share_seen: float | None = Field(
        description="counted: share of the run that was traced; null when declared"
    )
    cut_by: str = Field(
        default="",
        description="stated: why no more of the run was traced, and what to do; empty if all of it was",
    )
    instruction_set: str | None = Field(
        default=None,
        description="that of the traced instructions; null if declared, or if the trace does not say",
    )
    shared_bytes: int = Field(
        description="counted: bytes that the ranks share: files that the program reads through mappings, "
        "and memory that a forked process has of its parent"
    )
    share_of_zero_page: float = Field(
        description="counted: share of the lines that are of anonymous memory which was never written until "
        "then; the kernel shows its one page of zeros for it, and these lines are not simulated"
    )
    warnings: list[str]


class Input(Record):
    """One value of the machine file."""

    name: str
    value: str
    origin: Literal["source", "input", "assumed"]
    note: str = Field(description="the document, the calibration figure, or the reason of the assumption")


class MachineRecord(Record):
    """The machine that was modelled."""

    name: str
    title: str
    served_by: Literal["memory-side cache", "fast memory", "DDR"] = Field(
        description="the memory that serves the lines; in flat mode the fast memory if all of the job "
        "fits into it"
    )
    instruction_set: str = Field(default="x86-64", description="stated: what its cores execute")
    left_out: list[str] = Field(description="stated: sections of the machine file that are not replayed yet")
    inputs: list[Input]


class SampleRecord(Record):
    """How the numbers were obtained."""

    nodes: int = Field(
        description="the number of nodes under the baseline; each distribution has its own number"
    )
    seed: int
    sampled_slots: str = Field(description="the simulated slots of the memory-side cache, such as '1 in 64'")
    sampled_lines: str = Field(
        description="simulated, of each page, such as '2 of 64', or of the run, such as '12% of the run's'"
    )
    scaled: float | None = Field(
        description="stated: factor on the machine's capacities (--full-size); null if none"
    )
    version: str
    command: str = Field(description="reproduces the result")


class BoundsRecord(Record):
    """The seconds between which every placement's time lies, at the median core's speed: modelled."""

    least_s: float = Field(description="the seconds if the L2s served every line that leaves L1")
    most_s: float = Field(
        description="the seconds if each of these lines missed every cache and opened a row of DRAM, "
        "after a page walk, and each line that threads take from each other came from the farthest NUMA node"
    )
