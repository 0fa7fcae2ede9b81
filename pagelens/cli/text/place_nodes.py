"""Prints where the objects of a program should lie on NUMA nodes, with the answer first."""

import textwrap
from collections.abc import Iterator

from pagelens.place import NodesReport
from pagelens.report import shorten_objects, terminal_width
from pagelens.units import format_binary_size, format_share, format_time

_MOST = 12  # objects shown


def render_nodes(report: NodesReport) -> str:
    """Return the report as plain text. Every line is at most 80 columns wide."""
    return "\n\n".join("\n".join(lines) for lines in (list(_answer(report)), list(_objects(report))) if lines)


def _answer(r: NodesReport) -> Iterator[str]:
    gain = r.first_touch_s / r.placed_s
    if gain < 1.005:
        text = f"On {r.machine}, no placement of whole objects is faster than first touch (modelled)."
    else:
        text = (
            f"With its objects placed as below, the program takes {format_time(r.placed_s)} (modelled). That "
            f"is {gain:.2f} times as fast as with first touch."
        )
        text += f" Apply it with `pagelens run --plan {r.plan} --report -- ./app args`." if r.plan else ""
    if r.gap > 1e-4:
        text += f" The best possible time may be up to {r.gap:.2%} less."
    yield from textwrap.wrap(text, terminal_width(), break_on_hyphens=False)


def _objects(r: NodesReport) -> Iterator[str]:
    width = terminal_width() - 52
    if r.objects:
        yield f"{'object':<{width}} {'bytes':>9} {'of lines':>9} {'time alone':>10}  where"
    names = shorten_objects([row.name for row in r.objects[:_MOST]], width)
    for row, name in zip(r.objects, names, strict=False):
        where = " ".join([row.policy, ",".join(map(str, row.nodes))]).strip()
        yield (
            f"{name:<{width}} {format_binary_size(row.bytes):>9} "
            f"{format_share(row.share):>9} {format_time(row.alone_s):>10}  {where}"
        )
