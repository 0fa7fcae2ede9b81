"""`pagelens explain`: Say how page placement changes a program's speed, what slows it, and what helps."""

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from pagelens.accesses import DEFAULT_BUDGET, STDERR, JobWorkload, TraceRequest, is_trace, locate
from pagelens.api import (
    MOST_NODES,
    WHOLE_RUN,
    Ensemble,
    choose_phase,
    diff,
    explain,
    job_cost,
    simulate,
    try_assumed,
    write_nodes_plan,
)
from pagelens.cli.completion import complete_machine, complete_policies
from pagelens.cli.options import (
    RARE,
    Accesses,
    EngineName,
    FollowExec,
    FromFunction,
    History,
    Json,
    Output,
    Quiet,
    Ranks,
    Region,
    Seed,
    Size,
    Skip,
    SomeNodes,
    Targets,
    WorkloadName,
)
from pagelens.cli.several_machines import explain_on, how_elsewhere, machine_names
from pagelens.cli.source import (
    Source,
    check_cores,
    check_side_by_side,
    choose_source,
    refused_once,
    trace_for_job,
)
from pagelens.cli.text.explain import render_terminal
from pagelens.cli.text.several_machines import render_machines
from pagelens.cli.text.tables import wrap
from pagelens.errors import Failure, Interrupted, UsageError
from pagelens.explain import choose_policies, own_files_in_words, time_beside, write_outputs
from pagelens.frames import DEFAULT_HISTORY, parse_history
from pagelens.host import launched_rank
from pagelens.machine import MACHINE_FILE, choose_machine
from pagelens.run import run_with_best_remedy
from pagelens.spelling import typed_command
from pagelens.units import parse_share

EXAMPLES = """Examples:

  pagelens explain -- ./app args

  mpirun -n 8 pagelens explain -- ./app args

  pagelens explain --workload stream-triad --size 17.6GB

  pagelens explain app.*.trace --machine skx-6140-2s

  pagelens explain app.trace --machine this-machine,skx-8160

  pagelens explain app.trace --history "boot; age(jobs=30); io(20GB, buffered); drop_caches; run"

  pagelens explain app.trace --json > app.json
"""

Machines = Annotated[
    str | None,
    Option(
        "--machine",
        metavar="A,B,...",
        help="Names that `pagelens machines` lists, or .toml files; by default this computer.",
        autocompletion=complete_machine,
        show_default=False,
    ),
]
PolicyNames = Annotated[
    str | None,
    Option(
        "--policies",
        metavar="A,B,...",
        help="Policies to compare, such as aged,2m (docs/frames.md); by default those that can differ.",
        autocompletion=complete_policies,
        show_default=False,
    ),
]
Ways = Annotated[
    int | None,
    Option(
        metavar="N",
        help="The ways of the memory-side cache: 1, 2, 4, 8, 16.",
        rich_help_panel=RARE,
    ),
]
FullSize = Annotated[
    str | None,
    Option(
        metavar="SIZE",
        help="Shrink the machine until the copies fill it as a job of SIZE fills the real one.",
        rich_help_panel=RARE,
    ),
]
Phase = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help=f"Explain only this phase; by default the whole run ('{WHOLE_RUN}'), or --workload's loops.",
        rich_help_panel=RARE,
    ),
]
Precision = Annotated[
    str | None,
    Option(
        metavar="SHARE",
        help="Simulate nodes until chance moves no median by more than SHARE (default: 2%).",
        show_default=False,
        rich_help_panel=RARE,
    ),
]
Apply = Annotated[
    bool,
    Option(
        "--apply",
        help="Then run the program with the best remedy that you can apply here (docs/run.md).",
    ),
]

Timed = Annotated[
    bool,
    Option(
        "--timed",
        help="Run the program alone 3 to 30 times more, and put its time beside the modelled one.",
    ),
]

Sensitivity = Annotated[
    bool,
    Option(
        "--sensitivity",
        help="List what the machine file assumes, and whether other values change the conclusion.",
    ),
]

JobNodes = Annotated[
    int | None,
    Option(
        metavar="N",
        min=1,
        help="Say what a job on N nodes costs if all wait for the slowest.",
        rich_help_panel=RARE,
    ),
]

Files = Annotated[
    Path | None,
    Option(
        metavar="RECORDING",
        help="Let the transfers of `pagelens io record` fill the page cache first, and say what they cost.",
        rich_help_panel=RARE,
    ),
]

app = Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def explain_command(
    target: Targets = None,
    workload: WorkloadName = None,
    size: Size = None,
    machine: Machines = None,
    ways: Ways = None,
    ranks: Ranks = None,
    full_size: FullSize = None,
    nodes: SomeNodes = None,
    precision: Precision = None,
    policy_names: PolicyNames = None,
    history: History = DEFAULT_HISTORY,
    seed: Seed = 1,
    phase: Phase = None,
    output: Output = None,
    json: Json = False,
    quiet: Quiet = False,
    accesses: Accesses = DEFAULT_BUDGET,
    skip: Skip = 0,
    from_function: FromFunction = None,
    follow_exec: FollowExec = None,
    region: Region = None,
    engine: EngineName = None,
    apply: Apply = False,
    timed: Timed = False,
    sensitivity: Sensitivity = False,
    job_nodes: JobNodes = None,
    files: Files = None,
) -> None:
    """Say how page placement changes a program's speed, what slows it, and what helps."""
    rank = launched_rank(os.environ) if target and not is_trace(Path(target[0])) else None
    for option, given in {"--apply": apply, "--timed": timed}.items():
        if given and rank is not None:
            raise UsageError(f"{option}: runs one process, not the ranks of a job; leave it out")
    program = _to_run(target, "--apply") if apply else None
    if timed:
        _to_run(target, "--timed")
        if machine is not None:
            raise UsageError("--timed: times the program on this machine; leave out --machine")
    request = TraceRequest(
        target or [],
        "",
        accesses=accesses,
        skip=skip,
        from_function=from_function,
        region=region,
        follow_exec=follow_exec,
        keep_together=not (apply or timed) and ranks is None and full_size is None and rank is None,
        stdout=STDERR if json else None,
        engine=engine,
    )
    names = machine_names(
        machine,
        {
            "--apply": apply,
            "--timed": timed,
            "--json": json,
            "--ways": ways,
            "--full-size": full_size,
            "--sensitivity": sensitivity,
            "--job-nodes": job_nodes,
            "--files": files,
            "mpirun": rank,
        },
    )
    if names:
        chosen = choose_policies(policy_names) if policy_names is not None else None

        def run(source: Source) -> Ensemble:
            return simulate(
                source.program,
                source.scaled,
                chosen.values() if chosen is not None else None,
                nodes,
                history=parse_history(history, "--history"),
                seed=seed,
                output=source.directory,
                phase=phase,
                progress=not quiet,
                precision=parse_share(precision, "--precision") if precision is not None else None,
            )

        again = typed_command(["pagelens", *sys.argv[1:]])
        found = explain_on(names, request, workload, size, ranks, output, quiet, again, run)
        if not quiet:
            each = [of.explanation for of in found.done]
            differences = [diff(each[0], other) for other in each[1:]]
            folders = [of.directory for of in found.done]
            print(render_machines(each, differences, folders, found.left_out), end="")
        for error in found.failed[:-1]:
            print(f"pagelens: {error}", file=sys.stderr)
        if found.failed:
            raise found.failed[-1]
        return
    with refused_once(rank):
        taken = choose_machine(machine)
        taken.machine.require_linux_pages("explain")
        stated = taken.machine if ways is None else taken.machine.with_ways(ways)
        named = choose_policies(policy_names) if policy_names is not None else None
        if rank is not None:
            check_cores(rank, taken)
        steps = plain = parse_history(history, "--history")
        buffered = 0
        if files is not None:
            from pagelens.io import open_recording, steps_with_files, transferred  # 0.2 s, for pyarrow

            recording = open_recording(files)
            steps, (buffered, _) = steps_with_files(plain, recording), transferred(recording)
        wanted = parse_share(precision, "--precision") if precision is not None else None
    if rank is not None and not rank.reports:
        trace_for_job(request, output, rank)
        return
    chosen_source = choose_source(
        "explain", request, workload, size, stated, ranks, full_size, output, quiet, rank=rank,
        is_here=taken.is_here,
    )  # fmt: skip
    with chosen_source as source:
        check_side_by_side(source.program)
        choose_phase(phase, source.program, "--phase")  # for an error that names the option
        stopped, beside = None, None
        if timed:
            try:
                words = [str(locate(request.command[0]).absolute()), *request.command[1:]]
                beside = time_beside(words, source.program, stated, seed, source.share)
            except Failure as error:  # the rest goes on
                print(f"pagelens: {error}", file=sys.stderr)
        if job_nodes is not None and nodes is None and wanted is None:
            nodes = MOST_NODES  # what a job waits for are the slow ones, of which few nodes say little
        try:
            ensemble = simulate(
                source.program,
                source.scaled,
                named.values() if named is not None else None,
                nodes,
                history=steps,
                seed=seed,
                output=source.directory,
                phase=phase,
                progress=not quiet,
                precision=wanted,
            )
        except Interrupted as error:  # the nodes that are done give the answer so far
            if error.partial is None:
                raise
            ensemble, stopped = error.partial, error
        cores = source.scaled.machine.cores.count.value
        if isinstance(source.program, JobWorkload) and cores != stated.cores.count.value:
            taken = taken.with_cores(cores)
            machine = str(source.directory / MACHINE_FILE)
        command = ["pagelens", sys.argv[1], *taken.repeat(source.directory), *sys.argv[2:]]
        tried = None
        if sensitivity and stopped is None:
            try:
                tried = try_assumed(ensemble, source.directory, progress=not quiet)
            except Interrupted as error:  # the explanation itself is complete
                stopped = error
        explanation = explain(ensemble, typed_command(command), beside, tried)
        if job_nodes is not None:
            explanation = explanation.model_copy(update={"job_cost": job_cost(ensemble, job_nodes)})
        report, planned, unwritten = None, None, None
        try:
            report = write_outputs(explanation, ensemble, source.directory)
            planned = write_nodes_plan(explanation, source.program, stated, source.directory)
        except Failure as error:  # a full disk takes nothing from the terminal
            unwritten = error
        own_files: list[str] = []
        if buffered and stopped is None:
            direct, dropped = (
                simulate(
                    source.program,
                    source.scaled,
                    [ensemble.baseline],
                    nodes,
                    history=other,
                    seed=seed,
                    output=source.directory / name,
                    phase=phase,
                    progress=not quiet,
                    precision=wanted,
                )
                for name, other in (
                    ("without-files", plain),
                    ("files-dropped", steps_with_files(plain, recording, dropped=True)),
                )
            )
            own_files = list(own_files_in_words(ensemble, direct, dropped, buffered))
    if taken.note and not quiet:
        print(taken.note, file=sys.stderr)
    if json:
        print(explanation.model_dump_json(indent=1))
    elif not quiet:
        elsewhere = how_elsewhere(source.program, workload, size, machine)
        print(render_terminal(explanation, sensitivity, elsewhere))
        for sentence in own_files:
            print("\n".join(wrap(sentence)))
        if planned is not None:
            print("\n".join(wrap(planned.sentence)))
        if report is not None:
            print(f"Report: {report}")
    if unwritten is not None:
        raise unwritten
    if stopped is not None:
        raise stopped
    if program is not None and target:
        run_with_best_remedy(program, target, explanation, stated, quiet)


def _to_run(target: list[str] | None, option: str) -> Path:
    """Return the program that `option` runs. Raises UsageError before anything is simulated."""
    if not target or is_trace(Path(target[0])):
        raise UsageError(f"{option}: runs a program; give it, as -- ./app args")
    return locate(target[0])
