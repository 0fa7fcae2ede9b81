"""What the study of NUMA nodes simulates: the conditions of each claim, without any published figure.

Where a document names its machine, the file of that machine is used. Where it names none, the figure is a
range over all two-socket machines of Intel that Intel's Memory Latency Checker measured.
"""

from collections.abc import Mapping

from pagelens.frames.numa_rule import NumaRule
from pagelens.reproduce.programs.numa import AllMemories, Case, Loop, Rate

COPY = Loop("a", "b", untouched="b")
COPY_SERIAL = Loop("a", "b", serial="a", untouched="b")
COPY_REWRITTEN = Loop("a", "b", rewritten="a", untouched="b")
TRIAD = Loop("bc", "a")
READ, READ_SERIAL = Loop("a"), Loop("a", serial="a")
MILAN, MILAN_NPS4, ROME = "milan-7763-2s", "milan-7763-2s-nps4", "rome-7352-2s-nps4"
MILAN_7543, GENOA, GRACE = "milan-7543-2s-nps4", "genoa-9654-2s", "gh200-2x"
KNL, CXL, HASWELL, SNC2 = "cori-knl-flat", "spr-8468-cxl", "hsw-2680v3-2s", "clx-8269cy-2s-snc2"
TWO_SOCKETS = ("hsw-2680v3-2s", "skx-6140-2s", "clx-6240-2s", "icx-8360y-2s")
FEW = 16  # threads of the scheduler's benchmark, on nodes of 128 cores

CASES: Mapping[str, Case] = {
    "milan serial": Case(MILAN_7543, COPY_SERIAL),
    "milan parallel": Case(MILAN_7543, COPY),
    "milan rewritten": Case(MILAN_7543, COPY_REWRITTEN),
    "rome serial": Case(ROME, COPY_SERIAL),
    "rome parallel": Case(ROME, COPY),
    "nps1 spread": Case(MILAN, TRIAD, threads=FEW),
    "nps1 close": Case(MILAN, TRIAD, "close", threads=FEW),
    "nps4 spread": Case(MILAN_NPS4, TRIAD, threads=FEW),
    "nps4 local": Case(MILAN_NPS4, READ),
    "nps4 serial": Case(MILAN_NPS4, READ_SERIAL),
    "cxl local": Case(CXL, TRIAD),
    "cxl equal": Case(CXL, TRIAD, AllMemories("interleave", weights=(1, 1))),
    "cxl weighted": Case(CXL, TRIAD, "weighted"),
    # A Grace does not fetch lines that are stored whole, so that STREAM counts all that its triad moves.
    "grace local": Case(GRACE, READ, "close", threads=72),
    "grace interleaved": Case(GRACE, READ, NumaRule("interleave", "close"), threads=72),
    "knl slow": Case(KNL, TRIAD, beyond_fast=True),
    "knl fast": Case(KNL, TRIAD),
    "snc2 local": Case(SNC2, READ),
    **{
        f"{machine} {name}": Case(machine, loop, policy)
        for machine in (*TWO_SOCKETS, GENOA)
        for name, loop, policy in (
            ("local", READ, "aged"),
            ("serial", READ_SERIAL, "aged"),
            ("interleaved", READ, "interleave"),
        )
        if (machine, name) != (GENOA, "serial")  # no claim needs it
    },
}

Rates = Mapping[str, Rate]


def over_local(found: Rates, machine: str, placement: str) -> float:
    """Return the rate of a placement over that of all pages at home."""
    return found[f"{machine} {placement}"].counted / found[f"{machine} local"].counted


def over_machines(found: Rates, placement: str) -> tuple[float, float]:
    """Return the least and the most of `over_local` on two sockets."""
    shares = [over_local(found, machine, placement) for machine in TWO_SOCKETS]
    return min(shares), max(shares)
