"""Groups call sites into objects.

Sites of one object differ only by the depth of a recursion, or within one library. A function that calls
itself has a different stack at each depth, and so a different call site. A function therefore counts only
once in a stack. In a library without symbols no functions are known, so all its frames count as one. Sites
whose stacks are equal after that are one object. The innermost frame of a known function keeps its address,
because two lines that allocate are two objects.
"""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import PurePosixPath

from pagelens.accesses.symbols import Symbolizer

MOST_FRAMES = 16  # of a site: call_site_depth of tracer/call_sites.hpp

Stack = tuple[Hashable, ...]


def group_sites(
    sites: Mapping[int, Sequence[int]], symbols: Symbolizer, program: str, most_frames: int = MOST_FRAMES
) -> dict[int, int]:
    """Return for each site in a group the number of the group's first site.

    Sites that are alone are left out. `sites` has return addresses, innermost first, and at most
    `most_frames` of them, since longer stacks were cut. `program` is the traced program as it was called,
    such as `./app`.
    """
    folded = {site: _folded(addresses, symbols, program) for site, addresses in sites.items()}
    whole: dict[Stack, int] = {}
    for site, stack in folded.items():
        if len(sites[site]) < most_frames:
            whole.setdefault(stack, site)
    # A stack that was cut may lack its outermost frames. It joins the first whole stack that begins with it.
    begun: dict[Stack, int] = {}
    for stack, site in whole.items():
        for length in range(1, len(stack)):
            begun.setdefault(stack[:length], site)
    groups: dict[int, int] = {}
    cut: dict[Stack, int] = {}
    for site, stack in folded.items():
        first = whole.get(stack)
        if len(sites[site]) >= most_frames and first is None and len(stack) < len(sites[site]):
            first = begun.get(stack)
        first = cut.setdefault(stack, site) if first is None else first
        if first != site:
            groups[site] = first
    return groups


def _folded(addresses: Sequence[int], symbols: Symbolizer, program: str) -> Stack:
    stack: list[Hashable] = []
    seen: set[Hashable] = set()
    for address in addresses:
        module, function = symbols.function(address)
        named = function is not None or PurePosixPath(module).name == PurePosixPath(program).name
        place: Hashable = (module, address if function is None else function) if named else module
        if place not in seen:
            seen.add(place)
            stack.append(address if named else module)
    return tuple(stack)
