"""`pagelens explain`: from a program, a trace or a declared workload to the answer."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from pagelens.accesses.declared import DECLARED
from pagelens.accesses.program import locate
from pagelens.accesses.trace import is_trace
from pagelens.accesses.tracer import DEFAULT_BUDGET, TraceRequest
from pagelens.cli.progress import progress_bar
from pagelens.cli.source import WHOLE_RUN, choose_phase, choose_source
from pagelens.cli.text.explain import render_terminal
from pagelens.ensemble import run_ensemble
from pagelens.errors import UsageError
from pagelens.explain.analysis import explain
from pagelens.explain.model import Explanation
from pagelens.explain.outputs import write_outputs
from pagelens.explain.remedies import (
    APART,
    DEFAULT_POLICIES,
    SORTED,
    SWIZZLED,
    choose_policies,
    default_policies,
)
from pagelens.frames import DEFAULT_HISTORY, MODIFIERS, parse_history, policies
from pagelens.machine import Machine
from pagelens.machine.chosen import choose_machine

DEFAULT_NODES = 64

EXAMPLES = """Examples:

  pagelens explain -- ./app args

  pagelens explain --from-function solve -- ./app args

  pagelens explain --apply -- ./app args

  pagelens explain app.trace --nodes 256

  pagelens explain --machine cori-knl-cache --workload stream-triad --size 17.6GB

  pagelens explain app.trace --history "boot; age(jobs=30); io(20GB, buffered); drop_caches; run"

  pagelens explain app.trace --json > app.json
"""

_TRACING = "Tracing a program"

Target = Annotated[
    list[str] | None,
    Argument(metavar="[TRACE | -- PROGRAM ARGS...]", help="A trace, or a program to trace first."),
]
WorkloadName = Annotated[
    str | None, Option(metavar="NAME", help=f"Declared loops instead: {', '.join(DECLARED)}.")
]
Size = Annotated[
    str | None, Option(metavar="SIZE", help="Memory of the declared loops on a node, as 17.6GB or 16GiB.")
]
MachineName = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="One of `pagelens machines`; a cache-mode name with -ideal for its fully associative twin; or a "
        ".toml file. Without it, the machine that this runs on.",
    ),
]
Ways = Annotated[
    int | None,
    Option(metavar="N", help="Ways of the memory-side cache, instead of the machine's: 1, 2, 4, 8 or 16."),
]
Ranks = Annotated[
    int | None,
    Option(min=1, metavar="N", help="Copies of the program on a node; without it, as many as its cores run."),
]
FullSize = Annotated[
    str | None,
    Option(
        metavar="SIZE", help="Fallback: shrink the machine instead of filling it; the spread is too wide."
    ),
]
Nodes = Annotated[int, Option(min=1, max=100_000, metavar="N", help="Simulated nodes.")]
PolicyNames = Annotated[
    str | None,
    Option(
        "--policies",
        metavar="A,B,...",
        help=f"Compared on the same nodes: {', '.join(policies)}; +{' or +'.join(MODIFIERS)} after a name "
        f"(docs/remedies.md). Without it, {','.join(DEFAULT_POLICIES)}; on a machine without memory-side "
        f"cache {APART} and {SWIZZLED}, where they apply, instead of {SORTED}.",
    ),
]
History = Annotated[
    str,
    Option(
        metavar="STEPS",
        help="What the nodes went through before the run (docs/frames.md); policies add their steps.",
    ),
]
Seed = Annotated[int, Option(min=0, max=2**63 - 1, metavar="N", help="Decides every random draw.")]
Phase = Annotated[
    str | None, Option(metavar="NAME", help=f"Explain one phase; '{WHOLE_RUN}' is the whole run.")
]
Output = Annotated[
    Path | None,
    Option("--output", "-o", metavar="DIR", help="For the results; without it, pagelens-out/NAME."),
]
Json = Annotated[bool, Option("--json", help="Print the explanation as JSON (docs/explain-json.md).")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Write the files, print nothing but errors.")]
Accesses = Annotated[
    int,
    Option(min=0, metavar="N", help="Stop after N data accesses; 0: never.", rich_help_panel=_TRACING),
]
Skip = Annotated[
    int, Option(min=0, metavar="N", help="Begin after N data accesses.", rich_help_panel=_TRACING)
]
FromFunction = Annotated[
    str | None,
    Option(metavar="NAME", help="Begin when the program first calls NAME.", rich_help_panel=_TRACING),
]
FollowExec = Annotated[
    bool,
    Option(
        "--follow-exec",
        help="Trace children too, and explain the process with the most accesses: for wrapper scripts.",
        rich_help_panel=_TRACING,
    ),
]
Region = Annotated[
    str | None,
    Option(metavar="NAME", help="Trace only between the markers of region NAME.", rich_help_panel=_TRACING),
]

Apply = Annotated[
    bool,
    Option(
        "--apply",
        help="Then run the program with the best remedy that this user has on this machine (docs/run.md).",
    ),
]

app = Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def explain_command(
    target: Target = None,
    workload: WorkloadName = None,
    size: Size = None,
    machine: MachineName = None,
    ways: Ways = None,
    ranks: Ranks = None,
    full_size: FullSize = None,
    nodes: Nodes = DEFAULT_NODES,
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
    follow_exec: FollowExec = False,
    region: Region = None,
    apply: Apply = False,
) -> None:
    """Say how fast a program runs over page placements, what costs the slow ones, and what remedies gain."""
    program = _to_apply(target) if apply else None
    taken = choose_machine(machine)
    taken.machine.require_linux_pages("explain")
    stated = taken.machine if ways is None else taken.machine.with_ways(ways)
    named = choose_policies(policy_names) if policy_names is not None else None
    steps = parse_history(history, "--history")
    request = TraceRequest(
        target or [],
        "",
        accesses=accesses,
        skip=skip,
        from_function=from_function,
        region=region,
        follow_exec=follow_exec,
    )
    found = choose_source("explain", request, workload, size, stated, ranks, full_size, output, quiet)
    with found as source:
        chosen_phase = choose_phase(phase, source.program)
        with progress_bar(quiet) as progress:
            ensemble = run_ensemble(
                source.program,
                source.scaled,
                default_policies(source.program, source.scaled.machine) if named is None else named,
                nodes,
                seed,
                source.directory / "nodes",
                chosen_phase,
                steps,
                progress=progress,
            )
        command = ["pagelens", sys.argv[1], *taken.repeat(source.directory), *sys.argv[2:]]
        explanation = explain(ensemble, shlex.join(command))
        report = write_outputs(explanation, ensemble, source.directory)
    if taken.note and not quiet:
        print(taken.note, file=sys.stderr)
    if json:
        print(explanation.model_dump_json(indent=1))
    elif not quiet:
        print(render_terminal(explanation))
        print(f"Report: {report}")
    if program is not None and target:
        _apply(program, target, explanation, stated, quiet)


def _to_apply(target: list[str] | None) -> Path:
    """The program to run afterwards. Raises UsageError before anything is simulated."""
    if not target or is_trace(Path(target[0])):
        raise UsageError("--apply: runs a program; give it, as -- ./app args")
    return locate(target[0])


def _apply(program: Path, words: list[str], explanation: Explanation, machine: Machine, quiet: bool) -> None:
    """Runs the program in place of this process."""
    from pagelens.run.preload import Preload
    from pagelens.run.program import start, tell
    from pagelens.run.remedy import choose, look_around

    footprint = explanation.program.footprint_bytes
    applied = choose(explanation.remedies, machine, footprint, look_around())
    if not quiet:
        for line in applied.said:
            tell(f"{program.name} {line}" if line.startswith("runs") else line)
    start(program, words, applied.settings or Preload())
