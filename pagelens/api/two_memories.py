"""Decides which objects of a program lie in the fast one of two memories."""

from collections.abc import Sequence

from pagelens.accesses.workload import Workload
from pagelens.api.ensembles import fill_node
from pagelens.api.workloads import Declared
from pagelens.machine import Machine
from pagelens.place.assignment import Assignment
from pagelens.place.assignment import place as _place
from pagelens.place.capacity import Capacity
from pagelens.progress import progress_bar


def place(
    workload: Workload | Declared,
    machine: Machine,
    fast: str | int | Capacity | None = None,
    ranks: int | None = None,
    developer: Sequence[str] | None = None,
    moves: bool = False,
    command: str = "",
    progress: bool = True,
) -> Assignment:
    """Decide which objects of a workload lie in the fast memory of a machine in flat mode.

    `fast` is the fast memory that a node gives the job: bytes, a size such as "32GiB", or a share of what
    each rank has, as "50%"; without it, all that the machine has. `developer` names objects in the order in
    which somebody would put them there, to compare with. With `moves`, objects may change their memory
    between marked regions. The plan names `command` as the way to make it again. `report` of the result has
    `policies`, ways to fill fast memory with modelled seconds and their gain, and `objects`, with the share
    of each that the optimum puts there.

    Raises UsageError for a machine with one memory, and for more fast memory than the machine has.

    >>> w, m = workload("stream-triad", size="600MB"), machine("cori-knl-flat")
    >>> found = place(w, m, fast="50%", progress=False)
    >>> found.report.all_fast_s < found.report.all_slow_s
    True
    """
    source, copies = fill_node(workload, machine, ranks)
    with progress_bar(not progress, "steps") as bar:
        return _place(
            source, machine, fast, copies, developer=developer, moves=moves, command=command, progress=bar
        )
