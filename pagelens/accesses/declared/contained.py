"""A sum over memory that stays in the L2 caches, each core's own part: the test for snoop filter conflicts of
McCalpin (SC18; examples/sum.cpp is its small twin).
"""

from pagelens.accesses.declared.loops import Array, Loops, Sweep, read, write


def l2_sum(size_bytes: int, threads: int, repeats: int) -> Loops:
    """Every thread sums its part again and again; 1,000,000 bytes a core is what the original has."""
    return Loops(
        (Array("data", size_bytes),),
        (
            Sweep("initialise", 60.0, write("data"), first_touch=True),
            Sweep("warm-up", 24.0, read("data")),
            Sweep("sum", 24.0, read("data")),
        ),
        {"sum": repeats},
    )
