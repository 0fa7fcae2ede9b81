"""`pagelens fix`: Put free frames in a better order, without a kernel module."""

from typing import Annotated

import typer

from pagelens.fix import order_pool_here, turn_memory_here
from pagelens.units import format_binary_size, parse_size

EXAMPLES = """Examples:

  sudo pagelens fix hugepages --cache 16GiB

  sudo pagelens fix offline --cache 16GiB --node 1
"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="Put free frames in a better order, without a kernel module.\n\nThe commands need root.",
)

_Cache = Annotated[
    str, typer.Option(metavar="SIZE", help="The size of the direct-mapped cache in front of the memory.")
]
_Node = Annotated[int, typer.Option(metavar="N", min=0, max=1023, help="The NUMA node to work on.")]
_Virtual = Annotated[
    bool, typer.Option("--virtual", help="Work in a virtual machine too, whose frames are not the memory's.")
]


@app.command(epilog="  sudo pagelens fix hugepages --cache 16GiB --page 2MiB --node 0")
def hugepages(
    cache: _Cache,
    page: Annotated[
        str, typer.Option(metavar="SIZE", help="The page size of the pool: 2MiB or 1GiB.")
    ] = "2MiB",
    node: _Node = 0,
    virtual: _Virtual = False,
) -> None:
    """Order the pool of huge pages so that no two pages of a job share a cache slot.

    Run it between jobs, because it takes all free pages of the pool for a moment.
    """
    pool = order_pool_here(parse_size(page, "--page"), parse_size(cache, "--cache"), node, virtual)
    typer.echo(f"{pool.pages} free pages of {page} on node {node} ordered for {cache} of cache")
    typer.echo(
        f"in conflict, of the first pages that fill the cache: {100 * pool.share_before:.1f}% before, "
        f"{100 * pool.share_after:.1f}% now"
    )


@app.command(epilog="  sudo pagelens fix offline --cache 16GiB --node 0")
def offline(cache: _Cache, node: _Node = 0, virtual: _Virtual = False) -> None:
    """Order free memory by taking blocks of it offline and bringing them back.

    A block has 128 MiB or more, and one block is offline at a time. Blocks that
    the kernel cannot empty stay as they are, and their free memory is still used
    first. The command refuses to run while the NUMA node has a pool of huge pages,
    because those pages would be lost.
    """
    turned = turn_memory_here(parse_size(cache, "--cache"), node, virtual)
    done, stuck = (
        format_binary_size(len(blocks) * turned.block_bytes) for blocks in (turned.order, turned.stuck)
    )
    typer.echo(f"node {node}: {done} of memory put in order, {stuck} in use by what cannot move")
