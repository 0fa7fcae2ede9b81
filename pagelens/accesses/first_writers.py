"""Names the code that writes the pages of an object first: the loop that initialises it."""

from collections import Counter
from collections.abc import Mapping

from pagelens import _core
from pagelens.accesses.instructions import address_of
from pagelens.accesses.symbols import Symbolizer

FirstWriters = Mapping[int, Counter[str]]  # by object: pages that each place in the code writes first


def first_writers(trace: _core.Trace, survey: _core.Survey, symbols: Symbolizer) -> FirstWriters:
    """Return the first writers of those pages whose first write lies in a sample of the trace.

    A place is named as a call site is: `init (triad.c:31)`, or `init+0x1c (triad)` without lines.
    """
    blocks = {block.id: block for block in trace.code_blocks}
    found: dict[int, Counter[str]] = {}
    for index, block, instruction, pages in survey.first_writers.tolist():
        if (code := blocks.get(block)) is None:
            continue
        address = address_of(code.bytes, code.address, instruction)
        place = symbols.name([address + 1])  # as if it were a call, which lies before where it returns to
        found.setdefault(index, Counter())[place] += pages
    return found
