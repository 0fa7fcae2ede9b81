"""What the kernels of `pagelens measure` are given on its command line."""

from typing import Annotated

from typer import Option

_OF_KERNELS = "What a kernel is given"

N = Annotated[
    int | None,
    Option("--n", min=1, max=1 << 40, metavar="N",
           help="stream: doubles an array; dgemm: order; cg: points a side.",
           rich_help_panel=_OF_KERNELS),
]  # fmt: skip
Offset = Annotated[
    str | None,
    Option(
        metavar="DOUBLES",
        help="stream: between arrays: 512, or FIRST:LAST:STEP.",
        rich_help_panel=_OF_KERNELS,
    ),
]
Kernels = Annotated[
    str | None, Option(metavar="A,B", help="stream: copy, scale, add, triad.", rich_help_panel=_OF_KERNELS)
]
Footprint = Annotated[
    str | None, Option(metavar="SIZES", help="latency: 64KiB,1MiB,...", rich_help_panel=_OF_KERNELS)
]
Stride = Annotated[
    str | None,
    Option(
        metavar="SIZE", help="latency: a line of each; 4KiB shows translation.", rich_help_panel=_OF_KERNELS
    ),
]
Table = Annotated[
    str | None, Option(metavar="SIZE", help="gups: a power of two.", rich_help_panel=_OF_KERNELS)
]
Block = Annotated[
    str | None, Option(metavar="SIZE", help="l2sum: of each core.", rich_help_panel=_OF_KERNELS)
]
Distance = Annotated[
    str | None, Option(metavar="SIZES", help="conflict: between the streams.", rich_help_panel=_OF_KERNELS)
]
Blas = Annotated[
    str | None, Option(metavar="LIBRARY", help="dgemm: a name or path.", rich_help_panel=_OF_KERNELS)
]
Isa = Annotated[
    str | None, Option(metavar="NAME", help="sse2, avx2, avx512 or auto.", rich_help_panel=_OF_KERNELS)
]
Stores = Annotated[
    str | None,
    Option(metavar="KIND", help="stream: plain, nontemporal or auto.", rich_help_panel=_OF_KERNELS),
]

Order = Annotated[
    str | None,
    Option(
        metavar="KIND",
        help="stream: in-turn as STREAM, spread over each thread's share, or auto.",
        rich_help_panel=_OF_KERNELS,
    ),
]
Array = Annotated[
    str | None,
    Option(
        metavar="SIZE",
        help="tiers: each array, of four in either memory; without it, 1GiB.",
        rich_help_panel=_OF_KERNELS,
    ),
]
