"""`pagelens place`: Decide which objects of a program lie in fast memory, and write a plan that puts them there."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload, is_trace
from pagelens.accesses.tracer import DEFAULT_BUDGET, TraceRequest
from pagelens.accesses.workload import Workload
from pagelens.cli.options import (
    Accesses,
    FollowExec,
    FromFunction,
    MachineName,
    Output,
    Quiet,
    Ranks,
    Region,
    Size,
    Skip,
    Target,
    WorkloadName,
)
from pagelens.cli.progress import progress_bar
from pagelens.cli.source import Source, choose_source
from pagelens.cli.text.place import render_terminal
from pagelens.ensemble import check_fits
from pagelens.ensemble.run import Progress
from pagelens.errors import Interrupted, UsageError
from pagelens.files import write_whole
from pagelens.interrupts import ctrl_c_sets
from pagelens.machine import Machine
from pagelens.machine.chosen import choose_machine
from pagelens.machine.detect import System
from pagelens.place.analysis import Analysis, analyse, report
from pagelens.place.cache_mode import cache_modes
from pagelens.place.developer import listed_objects, read_list
from pagelens.place.phases import OUTSIDE
from pagelens.place.plan import MOST_REGIONS, read_plan, write_plan
from pagelens.place.plans import plan_of
from pagelens.place.policies import OURS
from pagelens.place.profile import Floats, Profile, profile, profiled_cut, timeline
from pagelens.place.report import PlaceReport
from pagelens.run.emulate import emulate as emulate_on
from pagelens.run.emulate import find_sockets
from pagelens.run.emulate import lines as emulated_lines
from pagelens.units import format_binary_size, format_time, parse_size

EXAMPLES = """Examples:

  pagelens place --machine cori-knl-flat -- ./app args

  pagelens place --machine xeon-max-flat --capacity 50% --list developer.txt app.trace

  pagelens run --plan pagelens-out/app/plan.toml --report -- ./app args
"""
PLAN = "plan.toml"
_STEPS = 3  # profile, placements, cache mode

Capacity = Annotated[
    str | None,
    Option(
        metavar="SIZE",
        help="Fast memory of the node, as 4GiB, or a share of what the program has, as 50%; without it, all "
        "that the machine has.",
    ),
]
List = Annotated[
    Path | None,
    Option(
        "--list",
        metavar="FILE",
        help="A developer's list to compare with: names of objects, one a line, the first first.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print the report as JSON (docs/place.md).")]
Moves = Annotated[
    bool,
    Option(
        "--moves",
        help="The plan moves objects between marked regions (hooks/pagelens.h), where that gains.",
    ),
]
Emulate = Annotated[
    bool,
    Option(
        "--emulate",
        help="Then measure the plan on two sockets: near memory is fast, far memory slow (docs/place.md).",
    ),
]

app = Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def place_command(
    target: Target = None,
    workload: WorkloadName = None,
    size: Size = None,
    machine: MachineName = None,
    ranks: Ranks = None,
    capacity: Capacity = None,
    list_: List = None,
    output: Output = None,
    json: Json = False,
    moves: Moves = False,
    emulate: Emulate = False,
    quiet: Quiet = False,
    accesses: Accesses = DEFAULT_BUDGET,
    skip: Skip = 0,
    from_function: FromFunction = None,
    follow_exec: FollowExec = False,
    region: Region = None,
) -> None:
    """Decide which objects of a program lie in fast memory, and write a plan that puts them there."""
    taken = choose_machine(machine)
    two_level = _with_two_memories(taken.machine)
    names = read_list(list_) if list_ is not None else None
    _check_capacity(capacity, two_level)
    if emulate and (not target or is_trace(Path(target[0]))):
        raise UsageError("--emulate: runs a program; give it, as -- ./app args")
    request = TraceRequest(
        target or [],
        "",
        accesses=accesses,
        skip=skip,
        from_function=from_function,
        region=region,
        follow_exec=follow_exec,
    )
    found = choose_source(
        "place", request, workload, size, two_level, ranks, None, output, quiet,
        lambda opened: profiled_cut(opened, two_level, ranks),
    )  # fmt: skip
    with _said_of_ctrl_c(), found as source:
        check_fits(source.program, source.scaled.machine, source.scaled.ranks)
        with progress_bar(quiet, "steps") as progress:
            shown = _in_thread(lambda cancel: _place(source, capacity, names, moves, progress, cancel))
        drawn = _write(shown, source.directory)
        measured = _emulated(target, Path(shown.plan)) if emulate and target else []
    if taken.note and not quiet:
        print(taken.note, file=sys.stderr)
    if json:
        print(shown.model_dump_json(indent=1))
    elif not quiet:
        print(render_terminal(shown))
        if shown.plan:
            print(f"Plan: {shown.plan}")
        print(f"Figure: {drawn}")
    for line in measured:
        print(line, file=sys.stderr if json else sys.stdout)


def _emulated(words: Sequence[str], plan: Path) -> list[str]:
    """What two sockets show of the plan; where there are none, a line that says so."""
    sockets = find_sockets(System())
    if sockets is None:
        return ["--emulate: no two NUMA nodes with processors are here; what is shown is the model's alone"]
    if not read_plan(plan).objects:
        return ["--emulate: the plan puts nothing into fast memory; there is nothing to measure"]
    return list(emulated_lines(emulate_on(words, plan, sockets), sockets))


@contextmanager
def _said_of_ctrl_c() -> Iterator[None]:
    """For what lies between tracing, placing and writing, which each say it themselves."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted before all was written; the same command begins anew") from None


def _in_thread(work: Callable[[_core.CancelFlag], PlaceReport]) -> PlaceReport:
    """Does the work where Ctrl-C, which only the main thread sees, can end it. Raises Interrupted."""
    cancel = _core.CancelFlag()
    with ctrl_c_sets(cancel), ThreadPoolExecutor(1, thread_name_prefix="pagelens-place") as pool:
        try:
            return pool.submit(work, cancel).result()
        except _core.Cancelled:
            raise Interrupted("interrupted while placing; nothing was decided") from None


def _place(
    source: Source,
    capacity: str | None,
    names: Sequence[str] | None,
    moves: bool,
    progress: Progress,
    cancel: _core.CancelFlag,
) -> PlaceReport:
    """Profiles, places, and writes the plan of a traced program."""
    program, ranks = source.program, source.scaled.ranks
    developer = listed_objects(names, program.objects) if names is not None else None
    progress(0, _STEPS)
    course = timeline(program, source.scaled.machine, ranks)
    profiled = profile(program, source.scaled.machine, ranks, course, cancel)
    progress(1, _STEPS)
    of_rank = _capacity_of_rank(capacity, profiled)
    analysis = analyse(profiled, of_rank, developer, cancel)
    progress(2, _STEPS)
    whole = profiled.footprint_bytes * ranks
    capacities = (min(of_rank * ranks, whole), whole)
    modes = cache_modes(profiled, course, capacities, cancel)
    progress(_STEPS, _STEPS)
    plan = _write_plan(analysis, program, of_rank, source.directory, moves)
    words = shlex.join(["pagelens", *sys.argv[1:]])
    notes = _notes(program, analysis)
    if moves:
        notes.append(_moves_note(analysis, bool(plan)))
    return report(analysis, words, modes, notes, plan, moves)


def _with_two_memories(machine: Machine) -> Machine:
    """The machine. Raises UsageError where there is nothing to choose."""
    if machine.mode == "flat":
        return machine
    why = "has one memory" if machine.mode == "single" else f"has its fast memory in {machine.mode} mode"
    raise UsageError(
        f"--machine: {machine.name} {why}; name one in flat mode, as cori-knl-flat, xeon-max-flat, "
        "cxl-tiered or gpu-host (`pagelens machines` lists all)"
    )


def _check_capacity(text: str | None, machine: Machine) -> None:
    """Raises UsageError for a capacity that no program could have on the machine."""
    assert machine.fast_memory is not None
    if text is None or text.endswith("%"):
        _share(text or "100%")
        return
    bytes_, most = parse_size(text, "--capacity"), machine.fast_memory.size
    if not 0 < bytes_ <= most.value:
        raise UsageError(
            f"--capacity: {text}: {machine.name} has {most.shown} of fast memory; name 1 B to {most.shown}, "
            "or a share as 50%"
        )


def _share(text: str) -> float:
    """Of "50%"."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(
            f"--capacity: '{text}': a share is above 0% and at most 100%; or name a size, as 4GiB"
        )
    return share


def _capacity_of_rank(text: str | None, profiled: Profile) -> float:
    """Bytes of fast memory that one rank has."""
    fast = profiled.machine.fast_memory
    assert fast is not None
    if text is not None and text.endswith("%"):
        return _share(text) * profiled.footprint_bytes
    return (parse_size(text, "--capacity") if text is not None else fast.size.value) / profiled.ranks


def _notes(program: Workload, analysis: Analysis) -> list[str]:
    """What a reader must know to judge the figures."""
    notes = [*program.warnings]
    machine = analysis.profile.machine
    if machine.device is not None:
        notes.append(
            f"{machine.name} is a {machine.device}: its cores are taken to run copies of the program, behind "
            "its caches. What is fast here is for cudaMalloc, the rest for cudaMallocHost: `pagelens run "
            "--plan` binds what malloc gives, nothing of a GPU's."
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
        notes.append(
            f"Of what was traced, {program.share_seen:.0%} of the program's instructions; --accesses sets it."
        )
    return notes


def _moves_note(analysis: Analysis, planned: bool) -> str:
    """What --moves gains over the static optimum, modelled; `planned`: a plan is written."""
    static = analysis.cost.seconds(analysis.at_capacity.shares[OURS])
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


def _write_plan(analysis: Analysis, program: Workload, capacity: float, directory: Path, moves: bool) -> str:
    """The plan of the optimum, with moves where they gain; of declared loops there is none to run."""
    if not isinstance(program, TraceWorkload):
        return ""
    path, shares = directory / PLAN, analysis.at_capacity.shares[OURS]
    in_regions: dict[str, Floats] = {}
    if moves and analysis.moves_gain:
        in_regions = dict(analysis.shares_in_regions)
        shares = in_regions.pop(OUTSIDE)
    write_plan(plan_of(analysis.profile, program, shares, capacity, in_regions), path)
    return str(path)


def _write(shown: PlaceReport, directory: Path) -> Path:
    """place.json and place.svg; returns the figure's path."""
    from pagelens.place.figure import draw  # matplotlib takes a second

    data = shown.model_dump_json(indent=1)
    write_whole(directory / "place.json", lambda path: path.write_text(data + "\n"))
    figure, svg = directory / "place.svg", draw(shown).svg
    write_whole(figure, lambda path: path.write_text(svg))
    return figure
