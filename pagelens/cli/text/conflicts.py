"""Prints a prediction in at most 80 columns, with the conclusion first."""

import textwrap
from collections.abc import Iterator, Sequence

from pagelens.conflicts import MOST_WINDOWS, Count, Prediction, Swap
from pagelens.report import terminal_width
from pagelens.units import format_binary_size, format_size

_BAR = 24
_PAGES_SHOWN = 12
_SETS_SHOWN = 16


def render(p: Prediction, swaps: Sequence[Swap] | None) -> str:
    """Return the prediction as plain text. `swaps` is None if no pool was given."""
    sections = [_conclusion(p, swaps), _structures(p), _histogram(p.counts[0]), _pages(p), _swaps(p, swaps)]
    sections.append(
        line for note in (*p.pages.notes, *p.socket.notes) for line in textwrap.wrap(note, terminal_width())
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _conclusion(p: Prediction, swaps: Sequence[Swap] | None) -> Iterator[str]:
    first = p.counts[0]
    if first.excess == 0:
        text = (
            f"No conflicts: the {first.name} can hold all {first.lines:,} lines that the L2s hold at a time"
        )
        text += "." if p.windows == 1 else f", in each of {len(p.shares):,} windows of the memory."
    else:
        text = (
            f"{percent(first.share)} of the lines that the L2s hold at a time do not fit into the "
            f"{first.name}: {first.excess:,} of {first.lines:,}, whatever the order of accesses."
        )
        if p.windows > 1:
            text += (
                f" That is the worst of {len(p.shares):,} windows of the memory, from {_start(p)} on; "
                f"their mean is {percent(float(p.shares.mean()))}."
            )
    if p.counts[-1].excess:
        text += f" {percent(p.counts[-1].share)} do not even fit into the L2s."
    if swaps:
        left = percent(swaps[-1].worst_share)
        text += f" With {_many(len(swaps), 'page')} swapped for others of the pool it is {left}."
    elif swaps is not None and first.excess:
        text += " No swap for a page of the pool makes it less."
    yield from textwrap.wrap(text, terminal_width())


def _start(p: Prediction) -> str:
    """Return where the worst window begins."""
    if p.pages.virtual is not None:
        return f"virtual address {int(p.pages.virtual[p.held.pages[0]]):#x}"
    return format_binary_size(int(p.starts[p.worst]))


def _structures(p: Prediction) -> Iterator[str]:
    l2s = -(-p.cores // p.socket.cores_per_l2)
    held = format_size(p.held_bytes) if p.held_bytes % 1024 else format_binary_size(p.held_bytes)
    yield from textwrap.wrap(
        f"{p.socket.title}: {l2s} L2s that hold up to {held} each; {_extent(p)}.", terminal_width()
    )
    yield ""
    yield f"{'':<14} {'slices x sets x ways':>22} {'lines':>10} {'beyond ways':>12} {'in such sets':>13}"
    for c in p.counts:
        yield (f"{c.name:<14} {c.geometry:>22} {c.lines:>10,} {f'{c.excess:,}':>12} {f'{c.crowded:,}':>13}")
    legend = "Beyond ways: lines that their sets cannot hold. In such sets: lines that push each other out."
    if len(p.counts) > 2:
        legend += f" The {p.counts[1].name} is counted as if the same lines were to be in it."
    yield from textwrap.wrap(legend, terminal_width())


def _extent(p: Prediction) -> str:
    text = f"{_many(len(p.pages.sizes), 'page')}, {format_binary_size(int(p.pages.sizes.sum()))}"
    if p.windows > MOST_WINDOWS:
        text += f"; of its {p.windows:,} windows {len(p.shares):,} evenly spaced ones are counted"
    return text


def _histogram(count: Count) -> Iterator[str]:
    ways = int(count.geometry.rsplit(" ", 1)[1])
    yield f"Sets of the {count.name} by the lines that fall to them ({ways} can be held):"
    rows = [(n, sets) for n, sets in enumerate(count.histogram) if sets]
    most = max(sets for _, sets in rows)
    shown = rows[-_SETS_SHOWN:]
    if len(rows) > len(shown):
        yield f"  fewer {sum(sets for _, sets in rows[:-_SETS_SHOWN]):>9,}"
    for n, sets in shown:
        bar = "█" * max(1, round(sets / most * _BAR))
        yield f"  {n:>5} {sets:>9,}  {bar}{'  beyond' if n > ways else ''}"


def _pages(p: Prediction) -> Iterator[str]:
    crowded = [page for page in p.by_page if page.crowded]
    if not crowded:
        return
    yield f"Pages with the most lines in crowded sets of the {p.counts[0].name}:"
    virtual = "" if p.pages.virtual is None else "virtual"
    yield f"  {'page':>8} {'physical':>14} {virtual:>15} {'L2s':>7} {'lines':>7} {'crowded':>13}"
    for page in crowded[:_PAGES_SHOWN]:
        holders = str(page.l2s[0]) if len(page.l2s) == 1 else f"{page.l2s[0]}-{page.l2s[-1]}"
        at = "" if page.virtual is None else f"{page.virtual:#x}"
        share = percent(page.crowded / page.lines)
        yield (
            f"  {page.page:>8} {page.address:>#14x} {at:>15} {holders:>7} {page.lines:>7,} "
            f"{page.crowded:>7,} {share:>5}"
        )
    if len(crowded) > _PAGES_SHOWN:
        yield f"  and {len(crowded) - _PAGES_SHOWN:,} more (--json has all)"


def _swaps(p: Prediction, swaps: Sequence[Swap] | None) -> Iterator[str]:
    if not swaps:
        return
    yield "Swaps, one after the other, and what is left of the share beyond ways:"
    yield f"  {'page':>8} {'from':>14} {'to':>14} {'worst window':>13} {'mean':>7}"
    worst, mean = float(p.shares.max()), float(p.shares.mean())
    yield f"  {'':>8} {'':>14} {'before':>14} {percent(worst):>13} {percent(mean):>7}"
    for s in swaps:
        left = f"{percent(s.worst_share):>13} {percent(s.mean_share):>7}"
        yield f"  {s.page:>8} {s.old:>#14x} {s.new:>#14x} {left}"


def percent(share: float) -> str:
    """Return text such as "6.8%". A share that rounds to nothing is "<.1%"."""
    return "<.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
