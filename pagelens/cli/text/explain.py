"""Prints an explanation as wide as the terminal, with the conclusion first."""

import textwrap
from collections.abc import Iterator, Sequence

from pagelens.cli.text.tables import command
from pagelens.explain import (
    RESOURCES_IN_WORDS,
    Distribution,
    Explanation,
    has_effect,
    interaction_in_words,
    job_cost_in_words,
    job_in_words,
    large_page_note,
    mean_in_words,
    moved_pages_note,
    overlap_note,
    shares_in_words,
    slow_tier_note,
    stopped_note,
    unpriced_lines_note,
)
from pagelens.replay import MECHANISMS
from pagelens.report import shorten, shorten_middle, shorten_objects, terminal_width
from pagelens.units import format_count, format_share, format_size, format_time

_BLOCKS = " ▁▂▃▄▅▆▇█"
_BINS = 18
_TOP = 6
_WIDE = 78  # columns from which all figures have room; below it, the less important ones are left out


def render_terminal(
    explanation: Explanation, sensitivity: bool = False, elsewhere: Sequence[str] = ()
) -> str:
    """Return the explanation as plain text. No line is wider than a terminal of 50 columns or more.

    With `sensitivity` a table has every assumed value, and the gains at the ends of its range. `elsewhere`
    has the parts of a command that explains the program on another machine.
    """
    sections = [
        _conclusion(explanation, elsewhere),
        _distributions(explanation),
        _attribution(explanation),
        _resources(explanation),
        _objects(explanation),
        _ranks(explanation),
        _numa(explanation),
        _remedies(explanation),
        _assumptions(explanation) if sensitivity else [],
        _job(explanation),
        _footing(explanation),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _conclusion(e: Explanation, elsewhere: Sequence[str]) -> Iterator[str]:
    yield from textwrap.wrap(" ".join(e.conclusion.sentences), terminal_width())
    if elsewhere:
        yield "To compare another machine:"
        yield from command(elsewhere)


def _distributions(e: Explanation) -> Iterator[str]:
    p = e.program
    shared = f" and {format_size(p.shared_bytes)} of shared pages" if p.shared_bytes else ""
    copies = f"{p.ranks} {'copies' if p.job is None else 'ranks'} of " if p.ranks > 1 else ""
    yield from textwrap.wrap(
        f"{p.name} on {e.machine.title}: {copies}{format_size(p.footprint_bytes)}{shared}, "
        f"{_nodes(e)}. Times are modelled, relative to the best run ({e.best.policy} on node "
        f"{e.best.node}, {format_time(e.best.time_s)}).",
        terminal_width(),
    )
    off_scale = e.off_scale()
    worst = max(d.worst_s for d in e.distributions if d.policy not in off_scale)
    low, high = 1.0, max(worst / e.best.time_s, 1.02)
    digits = 1 if high >= 1.1 else 2
    bins = _BINS if _wide() else _BINS - 2
    axis = f"{low:.{digits}f}x".ljust(bins - 5) + f"{high:.{digits}f}x".rjust(5)
    name = 14 if _wide() else 12
    heads = ["median", "p5", "p95", "worst", ">10%", ">20%"] if _wide() else ["median", "p95", "worst"]
    widths = [6, 5, 5, 6, 5, 5] if _wide() else [6, 5, 6]
    columns = " ".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    yield f"{'policy':<{name}} {columns}  {axis}"
    for d in e.distributions:
        unit = e.best.time_s
        modes = f" {d.modes} modes" if d.modes > 1 and _wide() else ""
        bars = "beyond the scale" if d.policy in off_scale else _bars(d, unit, high, bins) + modes
        cells = [f"{d.median_s / unit:.2f}", f"{d.p95_s / unit:.2f}", f"{d.worst_s / unit:.2f}"]
        if _wide():
            cells.insert(1, f"{d.p5_s / unit:.2f}")
            cells += [format_share(d.slower_10_percent), format_share(d.slower_20_percent)]
        columns = " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        yield f"{shorten_middle(d.policy, name):<{name}} {columns}  {bars}"
    if _wide():
        yield "p5, p95: the 5th and 95th percentile of the nodes, of which p95 is the slow end."
        yield ">10%, >20%: the share of nodes that are this much slower than the best run."
    yield "The bars show how many nodes take how long."
    base = e.distribution(e.baseline)
    yield from textwrap.wrap(f"'{base.policy}': {base.title}.", terminal_width())
    yield from textwrap.wrap(stopped_note(e.distributions, e.sample.nodes), terminal_width())
    for d in e.distributions:
        if note := large_page_note(d):
            yield from textwrap.wrap(note, terminal_width())


def _bars(d: Distribution, unit: float, high: float, count: int) -> str:
    """Return the histogram from 1 to `high` times `unit`, in eighths of a block.

    A bin with any node shows.
    """
    bins = [0] * count
    for seconds in d.times_s:
        bins[min(count - 1, int((seconds / unit - 1) / (high - 1) * count))] += 1
    most = max(bins)
    return "".join(_BLOCKS[0 if not b else max(1, round(b / most * 8))] for b in bins)


def _heading(text: str, hanging: str = "  ") -> list[str]:
    return textwrap.wrap(text, terminal_width(), subsequent_indent=hanging, break_on_hyphens=False)


def _attribution(e: Explanation) -> Iterator[str]:
    mean = next((a for a in e.attributions if a.policy == e.baseline and a.nodes == "mean"), None)
    if mean is None:
        return
    t = mean.time_s
    width = min(44, terminal_width() - 22)

    def line(name: str, seconds: float) -> str:
        share = round(100 * seconds / t, 1) + 0.0  # no negative zero
        return f"  {shorten(name, width):<{width}} {format_time(seconds):>10} {share:>6.1f}%"

    yield from _heading(
        f"Where the time goes under '{e.baseline}' (modelled, {mean_in_words(e)}, Shapley values):"
    )
    said = "Each part is the time that removing it saves, averaged over all orders of removal."
    yield from textwrap.wrap(said, terminal_width(), initial_indent="  ", subsequent_indent="  ")
    yield line("with compulsory misses only", mean.unburdened_s)
    for part in mean.parts:
        yield line(f"+ {MECHANISMS[part.mechanism].term}", part.seconds)
    yield line("= time", t)
    yield "  The time with one change alone:"
    if mean.two_way_s is not None:
        yield line("a 2-way cache", mean.two_way_s)
    for part in mean.parts:
        without = MECHANISMS[part.mechanism].without
        if without is not None and part.without_s is not None:
            yield line(without, part.without_s)
    yield line("all changes (compulsory misses only)", mean.unburdened_s)
    yield from textwrap.wrap(
        interaction_in_words(mean), terminal_width(), initial_indent="  ", subsequent_indent="  "
    )


def _resources(e: Explanation) -> Iterator[str]:
    d = next(d for d in e.distributions if d.policy == e.baseline)
    yield from _heading(f"What limits the speed under '{e.baseline}' (modelled, mean over the nodes):")
    width = min(44, terminal_width() - 30)
    yield f"  {'part of the machine':<{width}} {'busy':>10} {'limits it for':>16}"
    for r in d.resources:
        busy, bound = format_time(r.busy_s), 100 * r.bound_s / d.mean_s
        yield f"  {shorten(RESOURCES_IN_WORDS[r.name], width):<{width}} {busy:>10} {bound:>15.1f}%"


def _objects(e: Explanation) -> Iterator[str]:
    objects = [o for o in e.objects if o.policy == e.baseline and o.accesses > 0]
    if not objects:
        return
    cached = e.machine.served_by == "memory-side cache"
    yield from _heading(
        f"Objects at the {e.machine.served_by} under '{e.baseline}' (counted, mean over the nodes):"
    )
    columns = [("bytes", 9), ("lines", 8), ("share", 6)] + ([("missed", 7)] if cached else [])
    if not _wide():
        del columns[1]
    width = terminal_width() - 4 - sum(1 + width for _, width in columns)
    width = width if cached else width - 8

    def row(name: str, **cells: str) -> str:
        return f"  {name:<{width}}" + "".join(f" {cells.get(column, ''):>{room}}" for column, room in columns)

    yield row("object", bytes="allocated", lines="lines", share="share", missed="missed")
    job = e.program.job
    of_some = [
        f" ({o.ranks} of {job.traced_ranks} ranks)" if job and o.ranks != job.traced_ranks else ""
        for o in objects[:_TOP]
    ]
    names = shorten_objects([o.name for o in objects[:_TOP]], width - max(map(len, of_some)))
    rest = sum(o.access_share for o in objects[_TOP:])
    shares = shares_in_words([*(o.access_share for o in objects[:_TOP]), rest])
    for o, name, some, share in zip(objects, names, of_some, shares, strict=False):
        yield row(
            name + some,
            bytes=format_size(o.bytes) if o.bytes else "",
            lines=format_count(o.accesses),
            share=share,
            missed=format_share(o.miss_rate),
        )
    if len(objects) > _TOP:
        yield row(f"{len(objects) - _TOP} more", share=shares[-1]).rstrip()
    collisions = [c for c in e.collisions if c.policy == e.baseline]
    if collisions:
        run = " in the whole run" if e.program.phase else ""
        yield from _heading(f"  Which object evicts which{run} (counted, share of the evictions):", "    ")
    both = list(dict.fromkeys(name for c in collisions[:_TOP] for name in (c.name, c.victim)))
    short = dict(zip(both, shorten_objects(both, (terminal_width() - 17) // 2), strict=True))
    shares = shares_in_words([c.share for c in collisions])
    for c, share in zip(collisions[:_TOP], shares, strict=False):
        whom = "itself" if c.name == c.victim else short[c.victim]
        yield f"  {share:>5}  {short[c.name]} evicts {whom}"


def _ranks(e: Explanation) -> Iterator[str]:
    """Return how the ranks of a job are taken to run, and in what they differ."""
    if e.program.job is not None:
        words = " ".join(job_in_words(e.program.job))
        yield from textwrap.wrap(words, terminal_width(), break_on_hyphens=False)


def _numa(e: Explanation) -> Iterator[str]:
    """Return who uses whose memory under the baseline, on a machine of several NUMA nodes."""
    found = next((record for record in e.numa or [] if record.policy == e.baseline), None)
    if found is None:
        return
    yield from _heading(
        f"NUMA nodes under '{e.baseline}': {format_share(found.remote_share)} of the lines of memory are "
        "remote, on another NUMA node than the cores that ask for them (counted, mean over the simulated "
        f"nodes){':' if found.objects else '.'}"
    )
    width = terminal_width() - 28
    if found.objects:
        yield f"  {'object':<{width}} {'remote':>9} {'share':>13}"
    names = shorten_objects([known.name for known in found.objects[:_TOP]], width)
    shares = shares_in_words([known.share for known in found.objects])
    for known, name, share in zip(found.objects, names, shares, strict=False):
        yield f"  {name:<{width}} {format_share(known.remote_share):>9} {share:>13}"
        if known.first_written_by is not None:
            written = f"first written by {known.first_written_by}"
            yield from textwrap.wrap(
                written, terminal_width(), initial_indent="    ", subsequent_indent="      "
            )
    yield from _heading("  How long memories and directions of links are busy (modelled):", "    ")
    for part in found.parts[:_TOP]:
        yield f"  {part.name:<{width}} {format_time(part.busy_s):>9}"
    if found.shared:
        yield from _heading("  Lines that threads take from each other (counted):", "    ")
        yield f"  {'object':<{width}} {'taken':>9} {'share':>13}"
        names = shorten_objects([shared.name for shared in found.shared[:_TOP]], width)
        shares = shares_in_words([shared.share for shared in found.shared])
        for shared, name, share in zip(found.shared, names, shares, strict=False):
            yield f"  {name:<{width}} {format_count(shared.taken):>9} {share:>13}"
        yield from textwrap.wrap(
            unpriced_lines_note(found), terminal_width(), initial_indent="  ", subsequent_indent="  "
        )
    if note := overlap_note(e.program):
        yield from _heading(f"  {note}", "  ")
    yield from textwrap.wrap(slow_tier_note(found), terminal_width(), break_on_hyphens=False)
    for record in e.numa or []:
        yield from textwrap.wrap(moved_pages_note(record), terminal_width(), break_on_hyphens=False)


def _remedies(e: Explanation) -> Iterator[str]:
    shown = [r for r in e.remedies if has_effect(r)]
    if idle := [f"'{r.policy}'" for r in e.remedies if not has_effect(r)]:
        text = f"These remedies make no difference (1.00x), and are not shown: {', '.join(idle)}."
        yield from textwrap.wrap(text, terminal_width(), break_on_hyphens=False)
    if not shown:
        return
    yield from _heading(
        f"Remedies: how much faster the program runs than under '{e.baseline}' on the same nodes (modelled; "
        "below 1x it is slower):"
    )
    interval, worst = (f" {'95% interval':>13}", f" {'worst':>6}") if _wide() else ("", "")
    yield f"  {'policy':<14} {'median':>7}{interval} {'p95':>6}{worst}  costs"
    for r in shown:
        costs = {"root": r.root, "memory": r.memory, "code": r.code}
        text = "; ".join(f"{name}: {cost}" for name, cost in costs.items() if cost) or "nothing"
        if _wide():
            interval = f" {f'{r.gain_median_low:.2f}-{r.gain_median_high:.2f}':>13}"
            worst = f" {r.gain_worst:>5.2f}x"
        name = shorten_middle(r.policy, 14)
        start = f"  {name:<14} {r.gain_median:>6.2f}x{interval} {r.gain_p95:>5.2f}x{worst}  "
        indent = " " * len(start)
        yield from textwrap.wrap(text, terminal_width(), initial_indent=start, subsequent_indent=indent)


def _assumptions(e: Explanation) -> Iterator[str]:
    if not e.assumptions:
        yield "No value that the machine file assumes could be tried and judged by the median node."
        return
    what = "the advised remedy" if any(r.verdict == "gains" for r in e.remedies) else "the best remedy"
    judged = any(r.verdict in ("gains", "none") for r in e.remedies)
    unknown = "" if judged else "; ?: no remedy has a verdict that a value could change"
    yield from _heading(
        f"Assumed values of the machine, each tried alone: the gain of {what} at both ends of its range, "
        f"{e.assumptions[0].gain_as_it_is:.2f}x as it is (* was simulated again; ~ has no stated range, and "
        f"goes from a third to three times the value{unknown}):"
    )
    room = min(34, terminal_width() - 44)
    yield f"  {'value':<{room}} {'from':>10} {'gain':>6} {'to':>10} {'gain':>6}  holds"
    for of in sorted(e.assumptions, key=lambda each: -abs(each.gain_to - each.gain_from)):
        mark = "*" if of.simulated else " " if of.range_is_stated else "~"
        name = shorten_middle(of.name, room - 2)
        yield (
            f"{mark:>2}{name:<{room + 1}}{of.tried_from:>10} {of.gain_from:>5.2f}x {of.tried_to:>10} "
            f"{of.gain_to:>5.2f}x  {'no' if of.below or of.above else 'yes' if judged else '?'}"
        )


def _job(e: Explanation) -> Iterator[str]:
    if e.job_cost is None:
        return
    words = " ".join(job_cost_in_words(e.job_cost))
    yield from textwrap.wrap(words, terminal_width(), break_on_hyphens=False)
    room = min(40, terminal_width() - (36 if _wide() else 22))
    interval = f" {'95% interval':>13}" if _wide() else ""
    yield f"  {'way to run the job':<{room}} {'time':>10} {'faster':>7}{interval}"
    for way in e.job_cost.ways:
        interval = f" {f'{way.gain_low:.2f}-{way.gain_high:.2f}':>13}" if _wide() else ""
        title = shorten(way.title, room)
        yield f"  {title:<{room}} {format_time(way.time_s):>10} {way.gain:>6.2f}x{interval}"


def _footing(e: Explanation) -> Iterator[str]:
    p = e.program
    traced = "declared" if p.share_seen is None else f"traced ({format_share(p.share_seen)} of the run)"
    simulated = f"lines simulated: {e.sample.sampled_lines}"
    if e.machine.served_by == "memory-side cache":
        slots = f"{e.sample.sampled_slots} slots of the memory-side cache"
        simulated = f"simulated: {slots}, {e.sample.sampled_lines} lines of each page"
    text = (
        f"Lines are {traced} and counted ({simulated}); frames and times are modelled, on {_nodes(e)} with "
        f"seed {e.sample.seed}."
    )
    if e.sample.scaled is not None:
        text += (
            f" Capacities are scaled by {e.sample.scaled:.3g}. There are fewer slots then, so the nodes "
            "differ more than real ones."
        )
    if e.machine.left_out:
        text += f" These sections of the machine file are not simulated yet: {', '.join(e.machine.left_out)}."
    yield from textwrap.wrap(text, terminal_width())
    for warning in p.warnings:
        yield from textwrap.wrap(f"Warning: {warning}", terminal_width())


def _nodes(e: Explanation) -> str:
    return "1 node" if e.sample.nodes == 1 else f"{e.sample.nodes} nodes"


def _wide() -> bool:
    return terminal_width() >= _WIDE
