"""Assigns a program's objects to two memories: from the program's accesses to a report and a plan."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload
from pagelens.accesses.workload import Workload
from pagelens.ensemble import check_fits
from pagelens.errors import Interrupted, UsageError
from pagelens.interrupts import ctrl_c_sets, result_of
from pagelens.machine import Machine
from pagelens.place.analysis import Analysis, analyse
from pagelens.place.cache_mode import cache_modes
from pagelens.place.capacity import Capacity, check_two_memories, parse_capacity
from pagelens.place.notes import moves_note, notes_of
from pagelens.place.object_list import listed_objects
from pagelens.place.phases import OUTSIDE
from pagelens.place.plan import Plan
from pagelens.place.plan_builder import build_plan
from pagelens.place.policies import OURS
from pagelens.place.profile import Floats, profile, timeline
from pagelens.place.report import PlaceReport
from pagelens.place.report_builder import build_report
from pagelens.units import format_share, format_time

Progress = Callable[[int, int], None]  # steps done, steps in all
_STEPS = 3  # profile, policies, cache mode


@dataclass(frozen=True, repr=False)
class Assignment:
    """Which objects should lie in fast memory, and what that gains.

    `report` has every figure as typed rows: `report.policies`, `report.objects`, `report.phases`,
    `report.sweep`. Times are modelled seconds of the whole run, and bytes are those of one rank. `plan` is
    what `pagelens run --plan` enforces (`write_plan` in pagelens.place.plan writes it). Declared loops have
    no plan, because there is no program to run.
    """

    report: PlaceReport
    plan: Plan | None

    def __repr__(self) -> str:
        r = self.report
        ours = next(row for row in r.policies if row.policy == OURS)
        return (
            f"<Assignment of {r.program} on {r.machine}: {len(r.objects)} objects, "
            f"{format_time(ours.time_s)}, {ours.speedup:.2f}x all slow, {format_share(ours.gain)} of the "
            "gain of all fast (modelled)>"
        )


def place(
    workload: Workload,
    machine: Machine,
    fast: str | int | Capacity | None = None,
    ranks: int | None = None,
    *,
    developer: Sequence[str] | None = None,
    moves: bool = False,
    command: str = "",
    progress: Progress | None = None,
) -> Assignment:
    """Decide which objects of a program should lie in the fast one of a machine's two memories.

    `fast` is the fast memory of a node that the job may use: a size ("32GiB", or bytes), a share of what each
    rank has ("50%"), or None for all that the machine has. `ranks` copies of the program run, by default as
    many as the machine has cores for. `developer` names objects in the order of a developer's list, as a
    comparison (`pagelens place --list`). With `moves` the plan moves objects between the regions that the
    program marks, if that is faster. `command` goes into the report, and `progress` is called with steps done
    and steps in all.

    Raises UsageError for a machine without two memories, a capacity that it does not have, a job larger than
    its memory, or a name in `developer` that no object has. Raises Interrupted on Ctrl-C.
    """
    check_two_memories(machine)
    capacity = fast if isinstance(fast, Capacity) else parse_capacity(fast, machine)
    cores = machine.cores.count.value
    if ranks is not None and not 0 < ranks * workload.threads <= max(cores, workload.threads):
        most = max(1, cores // workload.threads)
        raise UsageError(f"ranks: {ranks}: {machine.name} has {cores} cores; name 1 to {most}")
    copies = ranks or max(1, cores // workload.threads)
    check_fits(workload, machine, copies)
    listed = listed_objects(developer, workload.objects) if developer is not None else None
    report = progress or (lambda done, total: None)
    cancel = _core.CancelFlag()

    def decide() -> Assignment:
        report(0, _STEPS)
        course = timeline(workload, machine, copies)
        profiled = profile(workload, machine, copies, course, cancel)
        report(1, _STEPS)
        of_rank = capacity.of_rank(profiled)
        analysis = analyse(profiled, of_rank, listed, cancel)
        report(2, _STEPS)
        whole = profiled.footprint_bytes * copies
        modes = cache_modes(profiled, course, (min(of_rank * copies, whole), whole), cancel)
        report(_STEPS, _STEPS)
        plan = _plan(analysis, workload, of_rank, moves)
        notes = notes_of(workload, analysis)
        if moves:
            notes.append(moves_note(analysis, plan is not None))
        return Assignment(build_report(analysis, command, modes, notes, "", moves), plan)

    # The work runs in a thread of its own, because only the main thread sees Ctrl-C.
    with ctrl_c_sets(cancel), ThreadPoolExecutor(1, thread_name_prefix="pagelens-place") as pool:
        try:
            return result_of(pool.submit(decide))
        except _core.Cancelled:
            raise Interrupted("interrupted while placing; nothing was decided") from None


def _plan(analysis: Analysis, program: Workload, capacity: float, moves: bool) -> Plan | None:
    """Return the plan of the optimum, with moves if they gain.

    Declared loops have no program to run it, and so no plan.
    """
    if not isinstance(program, TraceWorkload):
        return None
    shares, in_regions = analysis.at_capacity.shares[OURS], dict[str, Floats]()
    if moves and analysis.moves_gain:
        in_regions = dict(analysis.shares_in_regions)
        shares = in_regions.pop(OUTSIDE)
    return build_plan(analysis.profile, program, shares, capacity, in_regions)
