"""The options that several commands of the lab share."""

from typing import Annotated

import typer

from pagelens.cli.options import RARE

DEFAULT_MACHINE = "cori-knl-cache"

Memory = Annotated[str, typer.Option(metavar="SIZE", help="How much memory the guest has, as 4GiB.")]
Cache = Annotated[
    str, typer.Option(metavar="SIZE", help="The size of the memory-side cache over all nodes; 0B is none.")
]
KernelName = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="The kernel: Debian's 6.1 or 6.12, which are fetched once, or a bzImage file.",
    ),
]
MachineName = Annotated[
    str,
    typer.Option(
        "--machine", metavar="NAME", help="The machine whose private caches and bandwidths are used."
    ),
]
Limit = Annotated[
    float,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help="Stop a run that has taken this much processor time.",
        rich_help_panel=RARE,
    ),
]
