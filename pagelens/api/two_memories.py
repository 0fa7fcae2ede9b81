"""Which objects of a program lie in the fast one of two memories."""

from pagelens.accesses.workload import Workload
from pagelens.api.ensembles import fill_node
from pagelens.api.workloads import Declared
from pagelens.ensemble import check_fits
from pagelens.errors import UsageError
from pagelens.machine import Machine
from pagelens.place.analysis import analyse, report
from pagelens.place.profile import profile
from pagelens.place.report import PlaceReport
from pagelens.units import parse_size


def place(
    workload: Workload | Declared, machine: Machine, fast: str | int | None = None, ranks: int | None = None
) -> PlaceReport:
    """Decides which objects of a workload lie in the fast memory of a machine in flat mode.

    `fast` is the fast memory of the node, in bytes or as a text such as "32GiB"; without it all that the
    machine has. `policies` of the result are ways to fill it, with modelled seconds and their gain; `objects`
    are the allocations, with the share of each that the optimum puts in fast memory.

    Raises UsageError for a machine with one memory, and for more fast memory than the machine has.

    >>> found = place(workload("cg", size="2GiB"), machine("xeon-max-flat"), fast="1GiB")
    >>> found.all_fast_s < found.all_slow_s
    True
    """
    if machine.mode != "flat" or machine.fast_memory is None:
        raise UsageError(f"machine: {machine.name} has no two memories; name one in flat mode")
    whole = machine.fast_memory.size
    size = whole.value if fast is None else parse_size(fast, "fast") if isinstance(fast, str) else fast
    if not 0 < size <= whole.value:
        raise UsageError(f"fast: {fast}: {machine.name} has {whole.shown} of fast memory; name 1 B to that")
    source, copies = fill_node(workload, machine, ranks)
    check_fits(source, machine, copies)
    return report(analyse(profile(source, machine, copies), size / copies, None), "", (), [], "", False)
