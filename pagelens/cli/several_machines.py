"""Explains one program on several machines, which `explain --machine A,B` names."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pagelens.accesses import JobWorkload, TraceRequest, TraceWorkload, Workload
from pagelens.api import Ensemble, explain
from pagelens.cli.source import OUTPUT, Source, check_side_by_side, choose_source, name_of, name_of_declared
from pagelens.errors import Interrupted, PagelensError, UsageError
from pagelens.explain import Explanation, write_outputs
from pagelens.machine import HERE, choose_machine
from pagelens.spelling import typed


class OnMachine(NamedTuple):
    """The explanation on one machine, and the folder that holds it."""

    explanation: Explanation
    directory: Path


@dataclass
class OnMachines:
    """What came of the machines that were named."""

    done: list[OnMachine] = field(default_factory=list)
    failed: list[PagelensError] = field(default_factory=list)  # each names its machine
    left_out: list[str] = field(default_factory=list)  # machines without an explanation


def machine_names(text: str | None, others: Mapping[str, object]) -> list[str]:
    """Return the names of a list with commas; none if there is no comma, or it is that of a file's name.

    Raises UsageError if a name is empty or stands there twice, or if one of `others` is given, which are
    options of one machine.
    """
    if text is None or "," not in text or os.path.exists(text):  # also of a text too long for a file's name
        return []
    names = text.split(",")
    for option, value in others.items():
        if value:
            raise UsageError(f"{option}: is for one machine, and --machine names {len(names)}; name one")
    if len(set(names)) < len(names) or "" in names:
        raise UsageError(f"--machine {text}: give different names with commas between, as {HERE},NAME")
    return names


def explain_on(
    names: Sequence[str],
    request: TraceRequest,
    workload: str | None,
    size: str | None,
    ranks: int | None,
    output: Path | None,
    quiet: bool,
    command: str,
    run: Callable[[Source], Ensemble],
) -> OnMachines:
    """Return the explanation on each machine. A program is traced once, on the way to the first.

    `run` simulates, and `command` is the command that reproduces it. What fails on the first machine is
    raised. Ctrl-C ends the work, and a machine that cannot be simulated is left out: both are kept for the
    end, after what the others found.
    """
    machines = [choose_machine(name).machine for name in names]  # which refuses before the program runs
    for machine in machines:
        machine.require_linux_pages("explain")
    if len({machine.name for machine in machines}) < len(machines):
        raise UsageError(f"--machine: {', '.join(names)} have one name; give each file its own `name`")
    if output is None:
        target = Path(request.command[0]) if request.command else Path()
        name = name_of_declared(workload, size) if workload else name_of(target).removesuffix(".trace")
        output = OUTPUT / name
    found = OnMachines()
    smallest = min(machines, key=lambda machine: machine.cores.count.value)
    for number, machine in enumerate(machines, 1):
        if not quiet and sys.stderr.isatty():
            print(f"{machine.name} ({number} of {len(machines)}):", file=sys.stderr)
        folder = output / machine.name
        try:
            with choose_source(
                "explain", request, workload, size, machine, ranks, None, folder, quiet, smallest=smallest
            ) as source:
                check_side_by_side(source.program)
                if isinstance(source.program, TraceWorkload):
                    request = replace(request, command=[str(source.program.path)])
                elif isinstance(source.program, JobWorkload):
                    request = replace(request, command=[str(of.path) for of in source.program.traces])
                try:
                    ensemble = run(source)
                except Interrupted as error:  # the nodes that are done give the answer so far
                    if error.partial is None:
                        raise
                    ensemble = error.partial
                    found.failed.append(error)
                explanation = explain(ensemble, command)
                found.done.append(OnMachine(explanation, source.directory))
                write_outputs(explanation, ensemble, source.directory)
        except PagelensError as error:
            if not found.done:
                raise
            found.failed.append(type(error)(f"{machine.name}: {error}"))
        if any(isinstance(error, Interrupted) for error in found.failed):
            break
    explained = {of.explanation.machine.name for of in found.done}
    found.left_out += [machine.name for machine in machines if machine.name not in explained]
    return found


def how_elsewhere(
    program: Workload, workload: str | None, size: str | None, machine: str | None
) -> tuple[str, str]:
    """Return the parts of a command that explains the same program on this machine and on another one."""
    if workload is not None:
        what = f"--workload {workload} --size {typed(size or '')}"
    elif isinstance(program, TraceWorkload):
        what = typed(program.path)
    else:
        what = "TRACE..."
        traces = sorted(of.path for of in program.traces) if isinstance(program, JobWorkload) else []
        if len(traces) == 1:
            what = typed(traces[0])
        elif traces and sorted(traces[0].parent.glob("*.trace")) == traces:
            what = f"{typed(traces[0].parent)}/*.trace"
    return f"pagelens explain {what}", f"--machine {machine or HERE},NAME"
