"""Groups call sites into objects.

Sites of one object differ only by the depth of a recursion, or within one library. A function that calls
itself has a different stack at each depth, and so a different call site. A function therefore counts only
once in a stack. In a library without symbols no functions are known, so all its frames count as one. Sites
whose stacks are equal after that are one object. The innermost frame of a known function keeps its address,
because two lines that allocate are two objects.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
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
    name = PurePosixPath(program).name

    @cache  # stacks share most of their frames
    def frame(address: int) -> tuple[Hashable, Hashable]:
        """Return what occurs only once in a stack, and what is kept of it."""
        module, function = symbols.function(address)
        if function is None and PurePosixPath(module).name != name:
            return module, module
        return (module, address if function is None else function), address

    folded: dict[int, Stack] = {}
    for site, addresses in sites.items():
        kept: dict[Hashable, Hashable] = {}
        for place, left in map(frame, addresses):
            kept.setdefault(place, left)
        folded[site] = tuple(kept.values())
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
