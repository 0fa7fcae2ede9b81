"""The notes of a report: what a reader must know to judge its figures."""

from pagelens.accesses.workload import Workload
from pagelens.place.analysis import Analysis
from pagelens.place.plan import MOST_REGIONS
from pagelens.place.policies import OURS
from pagelens.units import format_binary_size, format_time


def notes_of(program: Workload, analysis: Analysis) -> list[str]:
    """Return the warnings of the trace and the limits of this analysis, one paragraph each."""
    notes = [*program.warnings]
    machine = analysis.profile.machine
    if machine.device is not None:
        notes.append(
            f"{machine.name} is a {machine.device}: the model lets its cores run copies of the program, "
            "behind its caches. Allocate what is fast here with cudaMalloc and the rest with cudaMallocHost: "
            "`pagelens run --plan` places what malloc gives, and nothing of a GPU's."
        )
    fast = machine.fast_memory
    assert fast is not None
    node = analysis.profile.footprint_bytes * analysis.profile.ranks
    if not node:
        notes.append(
            "Nothing here can be placed: a plan moves what the program itself allocates (malloc, new), and "
            "its static variables of a page and more."
        )
    elif node <= fast.size.value and analysis.at_capacity.capacity >= analysis.profile.footprint_bytes:
        notes.append(
            f"All {format_binary_size(node)} fit the fast memory; --capacity shows what less of it would do."
        )
    if program.share_seen is not None and program.share_seen < 1:
        held = f"The trace holds {program.share_seen:.0%} of the program's instructions. {program.cut_by}"
        notes.append(held.rstrip())
    return notes


def moves_note(analysis: Analysis, planned: bool) -> str:
    """Return how much faster moving between regions is than the static optimum.

    `planned` says if a plan exists.
    """
    static = analysis.model.seconds(analysis.at_capacity.shares[OURS])
    if not analysis.moves_gain:
        why, count = "moving objects between regions gains nothing", len(analysis.regions.names)
        if count == 1:
            why += ": the program marks no regions (pagelens.h)"
        elif count > MOST_REGIONS:
            why = (
                f"the program marks {count} regions, and a plan moves objects between {MOST_REGIONS} at most"
            )
        plan = "; the plan is the static optimum" if planned else ""
        return f"--moves: {why}{plan}."
    moving = analysis.between_regions
    what = "the plan moves objects" if planned else "objects move"
    return (
        f"--moves: {what} between marked regions: {format_time(moving.seconds)} instead of "
        f"the static optimum's {format_time(static)} ({1 - moving.seconds / static:.1%} less), with "
        f"{format_binary_size(moving.copied_bytes / analysis.profile.ranks)} copied by each rank. Modelled."
    )
