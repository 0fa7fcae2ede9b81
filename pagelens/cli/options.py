"""The options that several commands share. Each has one type, one meaning and one help text.

Nothing heavy of pagelens is imported here, so `pagelens trace` starts without numpy and polars.
"""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from pagelens.cli.completion import complete_machine, complete_workload

TRACING = "Tracing a program"  # panels of the help
RARE = "Rarely needed"

Targets = Annotated[
    list[str] | None,
    Argument(
        metavar="[TRACE... | -- PROGRAM ARGS...]",
        help="A trace, the traces of an MPI job's ranks, or a program that is traced first.",
    ),
]
MachineName = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="A name that `pagelens machines` lists, or a .toml file; by default this computer.",
        autocompletion=complete_machine,
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        metavar="DIR",
        help="The folder of the results; by default one in pagelens-out.",
        show_default=False,
    ),
]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Write the files and print only errors.")]
Seed = Annotated[
    int,
    Option(
        min=0,
        max=2**63 - 1,
        metavar="N",
        help="The seed of every random draw.",
        rich_help_panel=RARE,
    ),
]
# Options on what is simulated.
WorkloadName = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Simulate declared loops such as stream-triad (docs/declared.md).",
        autocompletion=complete_workload,
    ),
]
Size = Annotated[
    str | None,
    Option(metavar="SIZE", help="The memory of --workload on a node, such as 17.6GB."),
]
SomeNodes = Annotated[
    int | None,
    Option(
        "--nodes",
        min=1,
        max=100_000,
        metavar="N",
        help="Simulate exactly N nodes; by default as many as --precision needs, at most 64.",
        show_default=False,
    ),
]
Ranks = Annotated[
    int | None,
    Option(
        min=1,
        metavar="N",
        help="Copies of the program on a node; by default all cores are busy, or the traced ranks run.",
        show_default=False,
    ),
]
History = Annotated[
    str,
    Option(
        metavar="STEPS",
        help="What the nodes went through before (docs/frames.md).",
        rich_help_panel=RARE,
    ),
]

# Options on how a program is traced.
Accesses = Annotated[
    int,
    Option(
        min=0,
        metavar="N",
        help="Trace N data accesses, and let the program go on untraced; 0 traces all.",
        rich_help_panel=TRACING,
    ),
]
Skip = Annotated[
    int,
    Option(min=0, metavar="N", help="Begin to trace after N data accesses.", rich_help_panel=TRACING),
]
FromFunction = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Begin to trace at the first call of NAME; --skip counts from there.",
        rich_help_panel=TRACING,
    ),
]
Region = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Trace only region NAME (hooks/pagelens.h).",
        rich_help_panel=TRACING,
    ),
]
FollowExec = Annotated[
    bool | None,
    Option(
        "--follow-exec/--no-follow-exec",
        help="Keep a trace of each process, or trace PROGRAM alone; by default the busiest is kept, and for "
        "explain the forks beside it.",
        show_default=False,
        rich_help_panel=TRACING,
    ),
]
EngineName = Annotated[
    Literal["compiled", "dynamorio", "qemu"] | None,
    Option(
        "--engine",
        metavar="NAME",
        help="What traces the program: its own code (compiled), dynamorio or qemu; by default the first that "
        "can.",
        show_default=False,
        rich_help_panel=TRACING,
    ),
]
