"""Compares two explanations: times by policy, mechanisms, objects, and the gains of remedies."""

from collections.abc import Iterator

import numpy as np

from pagelens import statistics
from pagelens.diff.chance import Change, change, sure
from pagelens.diff.model import Difference, Row, Setting, Table
from pagelens.diff.rows import counted_row, object_rows, sampled_rows
from pagelens.diff.saved import SavedDistribution, SavedExplanation
from pagelens.diff.shares import are_one_program, mean_of, mechanism_word, share_tables, shares_in_words
from pagelens.units import format_count, format_share, format_size, format_time

_CAUSES = 3  # of a change: so many are named, unless they make less than _SMALL of the largest
_SMALL = 0.1


def diff_explanations(
    a: SavedExplanation, b: SavedExplanation, names: tuple[str, str], threshold: float
) -> Difference:
    """Compare B with A under the policies that both have; of two programs, only the shares of their times."""
    common = [d.policy for d in a.distributions if d.policy in {d.policy for d in b.distributions}]
    baseline = a.baseline if a.baseline in common else next(iter(common), "")
    if not are_one_program(a, b):
        shares = share_tables(a, b, common, baseline) if baseline else []
        return Difference(
            kind="explanations",
            a=names[0],
            b=names[1],
            sentences=list(shares_in_words(a, b, baseline)),
            threshold=threshold,
            settings=list(_settings(a, b)),
            tables=[table for table in (*shares, _remedies(a, b)) if table.rows],
        )
    tables = [
        *_times(a, b, common, baseline, threshold),
        _mechanisms(a, b, baseline),
        *_objects(a, b, baseline),
        _remedies(a, b),
    ]
    tables = [table for table in tables if table.rows]
    return Difference(
        kind="explanations",
        a=names[0],
        b=names[1],
        sentences=list(_sentences(a, b, baseline, tables)),
        threshold=threshold,
        settings=list(_settings(a, b)),
        tables=tables,
    )


def _times(
    a: SavedExplanation, b: SavedExplanation, policies: list[str], baseline: str, threshold: float
) -> Iterator[Table]:
    """Yield the tables of medians and tails.

    The reader's question is the median under the baseline, so it is tested alone. All other figures are
    tested together.
    """
    medians = {policy: _change(a, b, policy, 0.5) for policy in policies}
    tails = {policy: _change(a, b, policy, 0.95) for policy in policies}
    others = [found for policy, found in medians.items() if policy != baseline]
    rest = iter(sure([*others, *tails.values()]))
    of_medians = [sure([found])[0] if policy == baseline else next(rest) for policy, found in medians.items()]
    for name, title, changes, are_sure in (
        ("times", "Time, median over the nodes", medians, of_medians),
        ("slow nodes", "Time of slow nodes, 95th percentile", tails, list(rest)),
    ):
        rows = sampled_rows(changes, are_sure, threshold)
        yield Table(name=name, title=title, unit="s", counted=False, rows=rows)


def _change(a: SavedExplanation, b: SavedExplanation, policy: str, quantile: float) -> Change:
    """Compare one quantile under one policy. With equal seeds, node i of A and node i of B are paired."""
    x, y = (next(d for d in of.distributions if d.policy == policy) for of in (a, b))
    if x.times_s == y.times_s:  # then what was simulated of the run was the same, too
        return change(x.times_s, y.times_s, quantile)
    error = float(np.hypot(_sampling_error(x, a.sample.seed), _sampling_error(y, b.sample.seed)))
    paired = a.sample.seed == b.sample.seed and len(x.times_s) == len(y.times_s)
    return change(x.times_s, y.times_s, quantile, paired, error)


def _sampling_error(of: SavedDistribution, seed: int) -> float:
    """Return the error of simulating only a part of the run, as a share of the median.

    The stated interval of the median is wider than the spread of the nodes explains. The rest is this error.
    """
    nodes = statistics.spread(of.times_s, seed)
    below = (of.median_s - of.median_low_s) ** 2 - (nodes.median - nodes.median_low) ** 2
    above = (of.median_high_s - of.median_s) ** 2 - (nodes.median_high - nodes.median) ** 2
    return float(np.sqrt(max(0.0, below, above))) / of.median_s if of.median_s > 0 else 0.0


def _mechanisms(a: SavedExplanation, b: SavedExplanation, policy: str) -> Table:
    x, y = mean_of(a, policy), mean_of(b, policy)
    rows: list[Row] = []
    if x is not None and y is not None:
        rows.append(counted_row("compulsory misses only", x.unburdened_s, y.unburdened_s))
        parts_a, parts_b = ({part.mechanism: part.seconds for part in of.parts} for of in (x, y))
        rows += [
            counted_row(mechanism_word(name), parts_a.get(name), parts_b.get(name))
            for name in parts_a | parts_b
            if parts_a.get(name) or parts_b.get(name)
        ]
        rows.append(counted_row("all", x.time_s, y.time_s))
    title = f"Where the time goes under '{policy}', mean over the nodes"
    return Table(name="mechanisms", title=title, unit="s", counted=False, rows=rows)


def _objects(a: SavedExplanation, b: SavedExplanation, policy: str) -> Iterator[Table]:
    served = a.machine.served_by if a.machine.served_by == b.machine.served_by else "memory"
    counts = [("objects", "Lines of objects", "accesses")]
    if served == "memory-side cache":
        counts.append(("misses", "Lines missed by objects", "misses"))
    for name, title, column in counts:
        of_a, of_b = (
            {found.name: float(getattr(found, column)) for found in of.objects if found.policy == policy}
            for of in (a, b)
        )
        title = f"{title} at the {served} under '{policy}', mean over the nodes"
        yield Table(name=name, title=title, unit="lines", counted=True, rows=object_rows(of_a, of_b))


def _remedies(a: SavedExplanation, b: SavedExplanation) -> Table:
    remedies_b = {remedy.policy: remedy for remedy in b.remedies}
    rows = []
    for x in a.remedies:
        if (y := remedies_b.get(x.policy)) is None:
            continue
        note = f"{x.verdict}, then {y.verdict}" if x.verdict and y.verdict and x.verdict != y.verdict else ""
        rows.append(counted_row(x.policy, x.gain_median, y.gain_median, note=note))
    title = "Remedies: how much faster than the baseline, median over the nodes"
    return Table(name="remedies", title=title, unit="x", counted=False, rows=rows)


def _settings(a: SavedExplanation, b: SavedExplanation) -> Iterator[Setting]:
    """Yield the settings that differ, so that nobody overlooks that A and B are not comparable."""
    for name, x, y in (
        ("program", a.program.name, b.program.name),
        ("ranks", a.program.ranks, b.program.ranks),
        ("threads", a.program.threads, b.program.threads),
        ("phase", a.program.phase or "whole run", b.program.phase or "whole run"),
        ("memory of a rank", format_size(a.program.footprint_bytes), format_size(b.program.footprint_bytes)),
        ("share traced", _share(a.program.share_seen), _share(b.program.share_seen)),
        ("machine", a.machine.name, b.machine.name),
        ("nodes", a.sample.nodes, b.sample.nodes),
        ("seed", a.sample.seed, b.sample.seed),
        ("lines simulated", a.sample.sampled_lines, b.sample.sampled_lines),
        ("baseline", a.baseline, b.baseline),
        ("pagelens", a.sample.version, b.sample.version),
    ):
        if x != y:
            yield Setting(name=name, a=str(x), b=str(y))
    inputs_a, inputs_b = ({given.name: given.value for given in of.machine.inputs} for of in (a, b))
    if a.machine.name == b.machine.name:
        for name in inputs_a | inputs_b:
            x, y = inputs_a.get(name, "not stated"), inputs_b.get(name, "not stated")
            if x != y:
                yield Setting(name=name, a=x, b=y)
    for policy in {d.policy: None for d in (*a.distributions, *b.distributions)}:
        has = [any(d.policy == policy for d in of.distributions) for of in (a, b)]
        if not all(has):
            words = ["simulated" if of else "not simulated" for of in has]
            yield Setting(name=f"policy '{policy}'", a=words[0], b=words[1])


def _share(share: float | None) -> str:
    return "declared" if share is None else format_share(share)


def _sentences(a: SavedExplanation, b: SavedExplanation, baseline: str, tables: list[Table]) -> Iterator[str]:
    if not baseline:
        yield "A and B have no policy in common, so their times cannot be compared."
        return
    by_name = {table.name: table for table in tables}
    row = by_name["times"].row(baseline)
    machines = a.machine.name, b.machine.name
    if row.ratio is None:
        yield (
            f"Under '{baseline}' A takes {format_time(row.a or 0)} and B {format_time(row.b or 0)}, which "
            "have no ratio."
        )
        return
    interval = f"{row.ratio_low:.2f}x to {row.ratio_high:.2f}x"
    few = f" ({row.note})" if row.note else ""
    if machines[0] != machines[1]:
        chance = f"; this may be chance{few}" if row.verdict == "unsure" else ""
        yield (
            f"A and B are of different machines: under '{baseline}' the program takes "
            f"{format_time(row.a or 0)} on {machines[0]} (A) and {format_time(row.b or 0)} on {machines[1]} "
            f"(B), {row.ratio:.2f}x as long (modelled, 95% interval {interval}{chance})."
        )
        if a.program.ranks != b.program.ranks:
            yield f"A has {a.program.ranks} of its processes on a node, and B {b.program.ranks}."
    elif row.a == row.b and row.ratio_low == row.ratio_high:
        yield f"Under '{baseline}' B takes exactly as long as A."
    elif row.verdict == "unsure":
        yield (
            f"Under '{baseline}' B takes {row.ratio:.2f}x as long as A, which may be chance{few}: the 95% "
            f"interval is {interval}."
        )
    else:
        how = "slower" if row.verdict == "more" else "faster"
        small = "" if row.worse or row.better else ", by less than the threshold"
        yield (
            f"B is {how} than A{small}: under '{baseline}' it takes {row.ratio:.2f}x as long (95% interval "
            f"{interval})."
        )
    others = [row for row in by_name["times"].rows if row.name != baseline and (row.worse or row.better)]
    if others:
        which = ", ".join(f"'{row.name}' {row.ratio:.2f}x" for row in others)
        yield f"It surely differs under other policies, too: {which}."
    yield from _cause(by_name.get("mechanisms"), row)
    if machines[0] == machines[1]:
        yield from _largest_object(by_name.get("objects"))


def _cause(mechanisms: Table | None, time: Row) -> Iterator[str]:
    """Name the mechanisms that make most of the change of the mean."""
    if mechanisms is None or not (time.worse or time.better):
        return
    *parts, whole = mechanisms.rows
    changes = sorted(((_change_of(row), row.name) for row in parts), key=lambda of: -abs(of[0]))
    named = [
        f"{name} {_signed(seconds)}"
        for seconds, name in changes[:_CAUSES]
        if seconds and abs(seconds) >= _SMALL * abs(changes[0][0])
    ]
    if named:
        yield f"The mean time changes by {_signed(_change_of(whole))}, most of all: {', '.join(named)}."


def _change_of(row: Row) -> float:
    return (row.b or 0) - (row.a or 0)


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{format_time(abs(seconds))}"


def _largest_object(objects: Table | None) -> Iterator[str]:
    if objects is None:
        return
    total = sum(row.a or 0 for row in objects.rows)
    first = objects.rows[0]
    moved = _change_of(first)
    if total and abs(moved) > 0.01 * total:
        how = (
            "is only in B"
            if first.a is None
            else "is only in A"
            if first.b is None
            else (
                f"moves {first.ratio:.2f}x its lines in A"
                if first.ratio is not None
                else "moves lines only in B"
            )
        )
        share = f", {format_share(abs(moved) / total)} of all lines in A" if abs(moved) <= total else ""
        yield (
            f"The object that changes most is `{first.name}`: it {how}, a change by "
            f"{format_count(abs(moved))} lines{share}."
        )
