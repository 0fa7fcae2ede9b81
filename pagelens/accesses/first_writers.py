"""Names the code that writes the pages of an object first: the loop that initialises it."""

from collections import Counter
from collections.abc import Mapping

from pagelens import _core
from pagelens.accesses.instructions import address_of
from pagelens.accesses.symbols import Symbolizer

FirstWriters = Mapping[int, Counter[str]]  # by object: pages that each place in the code writes first


def first_writers(trace: _core.Trace, survey: _core.Survey, symbols: Symbolizer) -> FirstWriters:
    """Return what code of the program writes pages first. Imported traces and those of older tracers lack it.

    A place is named as a call site is: `init (triad.c:31)`, or `init+0x1c (triad)` without lines. A runtime
    that writes, such as `memset`, is named by its caller in the program.
    """
    blocks = {block.id: block for block in trace.code_blocks}
    places = {}
    for writer in trace.writers:
        if (code := blocks.get(writer.block)) is not None:
            address = address_of(code.bytes, code.address, writer.instruction)
            # As if it were a call, which lies before where it returns to.
            places[writer.id] = symbols.name([address + 1, *writer.return_addresses])
    found: dict[int, Counter[str]] = {}
    for index, writer, pages in survey.first_writers.tolist():
        if writer in places:
            found.setdefault(index, Counter())[places[writer]] += pages
    return found
