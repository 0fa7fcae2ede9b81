"""Says which rank of an MPI job this process is, by the variables that launchers set."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pagelens.host.output_name import RANK_VARIABLES

# The number of a rank among those of its node, and how many these are: Open MPI, MPICH and its kin, Slurm.
_ON_NODE = (
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)


@dataclass(frozen=True)
class LaunchedRank:
    """A rank of a job that has several ranks on this node, or on others."""

    number: int  # among all ranks
    on_node: int  # among those of the node, from 0
    ranks_on_node: int

    @property
    def reports(self) -> bool:
        """Whether it reports for the others of its node."""
        return self.number == 0


def launched_rank(environment: Mapping[str, str]) -> LaunchedRank | None:
    """Return the rank that a launcher says this process is. What is no number is as if it were not there.

    None: it is in no job, or it is rank 0 and alone on its node, so that its report is of one process.
    """
    numbers = [found for name in RANK_VARIABLES if (found := _number(environment, name)) is not None]
    if not numbers:
        return None
    for name, size in _ON_NODE:
        on_node, ranks = _number(environment, name), _number(environment, size)
        if on_node is not None and ranks is not None:
            this = LaunchedRank(numbers[0], on_node, ranks)
            return this if ranks > 1 or not this.reports else None
    return None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """Return the number that a variable begins with, as the 4 of Slurm's `4(x2)`."""
    found = re.match(r"\d{1,9}", environment.get(name, ""), re.ASCII)
    return int(found[0]) if found else None
