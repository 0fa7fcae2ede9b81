"""`pagelens fix`: Put free frames in a better order, without a kernel module."""

from typing import Annotated

import typer

from pagelens.errors import UsageError
from pagelens.fix.hugepages import TOOL, conflict_share, order_pool, pool_frames
from pagelens.fix.offline import turn_memory
from pagelens.fix.system import require_real_frames
from pagelens.host.commands import ThisMachine
from pagelens.host.native_files import native_file
from pagelens.units import format_binary_size, parse_size

EXAMPLES = """Examples:

  pagelens fix hugepages --cache 16GiB

  pagelens fix offline --cache 16GiB --node 1
"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="Put free frames in a better order, without a kernel module.",
)

_Cache = Annotated[
    str, typer.Option(help="The size of the direct-mapped cache in front of the memory, as 16GiB.")
]
_Node = Annotated[int, typer.Option(min=0, max=1023, help="The NUMA node to work on.")]
_Virtual = Annotated[
    bool, typer.Option("--virtual", help="Work in a virtual machine too, whose frames are not the memory's.")
]


@app.command(epilog="  pagelens fix hugepages --cache 16GiB --page 2MiB --node 0")
def hugepages(
    cache: _Cache,
    page: Annotated[str, typer.Option(help="The page size of the pool: 2MiB or 1GiB.")] = "2MiB",
    node: _Node = 0,
    virtual: _Virtual = False,
) -> None:
    """Order the pool of huge pages so that no two pages of a job share a cache slot.

    Run it between jobs, because it takes all free pages of the pool for a moment.
    """
    page_bytes, cache_bytes = parse_size(page, "--page"), parse_size(cache, "--cache")
    if page_bytes not in (2 << 20, 1 << 30):
        raise UsageError(f"--page {page}: 2MiB or 1GiB")
    require_real_frames(virtual)
    machine, tool = ThisMachine(), native_file(TOOL)
    before = pool_frames(machine, tool, page_bytes, node)
    if not before:
        raise UsageError(f"--node {node}: its pool has no free page of {page}; reserve some by nr_hugepages")
    after = order_pool(machine, tool, page_bytes, cache_bytes, node)
    was, now = (100 * conflict_share(frames, page_bytes, cache_bytes) for frames in (before, after))
    typer.echo(f"{len(after)} free pages of {page} on node {node} ordered for {cache} of cache")
    typer.echo(f"in conflict, of the first pages that fill the cache: {was:.1f}% before, {now:.1f}% now")


@app.command(epilog="  pagelens fix offline --cache 16GiB --node 0")
def offline(cache: _Cache, node: _Node = 0, virtual: _Virtual = False) -> None:
    """Order free memory by taking blocks of it offline and bringing them back.

    A block has 128 MiB or more, and one block is offline at a time. Blocks that the kernel cannot empty stay
    as they are, and their free memory is still used first. The command refuses to run while the NUMA node has
    a pool of huge pages, because those pages would be lost.
    """
    cache_bytes = parse_size(cache, "--cache")
    require_real_frames(virtual)
    turned = turn_memory(ThisMachine(), cache_bytes, node)
    done, stuck = (
        format_binary_size(len(blocks) * turned.block_bytes) for blocks in (turned.order, turned.stuck)
    )
    typer.echo(f"node {node}: {done} of memory put in order, {stuck} in use by what cannot move")
