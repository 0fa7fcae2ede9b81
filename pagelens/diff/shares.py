"""Compares the shares of two programs' times, where the times themselves cannot be compared."""

from collections.abc import Iterator

import numpy as np

from pagelens.diff.model import Row, Table
from pagelens.diff.rows import counted_row, same_objects
from pagelens.diff.saved import SavedAttribution, SavedExplanation
from pagelens.explain.verdict import MATTERS
from pagelens.replay.mechanisms import MECHANISMS
from pagelens.units import format_share

_SAME = 0.5  # of the lines of both: programs with other names whose objects have these lines are versions


def are_one_program(a: SavedExplanation, b: SavedExplanation) -> bool:
    """Return whether A and B are of one program, or of two versions of it.

    Versions may have names of their own, but most of their lines are of the same objects. Names in brackets,
    such as `[stack]`, are those of every program.
    """
    if a.program.name == b.program.name:
        return True
    of_a, of_b = (
        {
            found.name: found.accesses
            for found in of.objects
            if found.policy == of.baseline and not found.name.startswith("[")
        }
        for of in (a, b)
    )
    same = same_objects(of_a, of_b)
    both = ((sum(of_a[name] for name in same), of_a), (sum(of_b[name] for name in same.values()), of_b))
    return bool(same) and all(common >= _SAME * sum(of.values()) for common, of in both)


def share_tables(a: SavedExplanation, b: SavedExplanation, policies: list[str], baseline: str) -> list[Table]:
    """Return the times as multiples of the baseline's median, and mechanisms as shares of the mean."""
    x, y = (_quantile(of, baseline, 0.5) for of in (a, b))
    rows = [
        counted_row(
            f"{name} under '{policy}'", _quantile(a, policy, quantile) / x, _quantile(b, policy, quantile) / y
        )
        for policy in policies
        for name, quantile in (("median", 0.5), ("slow nodes", 0.95))
        if (policy, quantile) != (baseline, 0.5) and min(x, y) > 0
    ]
    title = f"Times, as multiples of the median under '{baseline}'"
    times = Table(name="times", title=title, unit="x", counted=False, rows=rows)
    title = f"Shares of the time under '{baseline}', mean over the nodes"
    mechanisms = Table(
        name="mechanisms",
        title=title,
        unit="share",
        counted=False,
        rows=list(_mechanism_rows(a, b, baseline)),
    )
    return [times, mechanisms]


def shares_in_words(a: SavedExplanation, b: SavedExplanation, baseline: str) -> Iterator[str]:
    """Say that the programs differ, how far the nodes of each lie apart, and what costs each most."""
    yield (
        f"A and B are of different programs ({a.program.name}, {b.program.name}), so their times and lines "
        "are not compared, only shares of them."
    )
    if not baseline:
        return
    slow, medians = ([_quantile(of, baseline, quantile) for of in (a, b)] for quantile in (0.95, 0.5))
    if min(medians) > 0:
        yield (
            f"Under '{baseline}', slow nodes (95th percentile) take {slow[0] / medians[0]:.2f}x as long as "
            f"the median node in A, and {slow[1] / medians[1]:.2f}x in B."
        )
    yield f"{_largest_loss(a, baseline, 'A')} {_largest_loss(b, baseline, 'B')}".strip()


def _largest_loss(of: SavedExplanation, policy: str, name: str) -> str:
    found = mean_of(of, policy)
    if found is None or not found.parts or found.time_s <= 0:
        return ""
    part = max(found.parts, key=lambda part: part.seconds)
    share = part.seconds / found.time_s
    if share <= MATTERS - 1:
        return f"{name} loses less than 2% of its time to any mechanism."
    return f"{name} loses most to {mechanism_word(part.mechanism)}: {format_share(share)} of its time."


def _mechanism_rows(a: SavedExplanation, b: SavedExplanation, policy: str) -> Iterator[Row]:
    x, y = mean_of(a, policy), mean_of(b, policy)
    if x is None or y is None or min(x.time_s, y.time_s) <= 0:
        return
    yield counted_row("compulsory misses only", x.unburdened_s / x.time_s, y.unburdened_s / y.time_s)
    parts_a, parts_b = ({part.mechanism: part.seconds / of.time_s for part in of.parts} for of in (x, y))
    for name in parts_a | parts_b:
        if parts_a.get(name) or parts_b.get(name):
            yield counted_row(mechanism_word(name), parts_a.get(name), parts_b.get(name))


def mean_of(of: SavedExplanation, policy: str) -> SavedAttribution | None:
    """Return the attribution of the mean over the nodes under a policy."""
    return next((found for found in of.attributions if (found.policy, found.nodes) == (policy, "mean")), None)


def mechanism_word(mechanism: str) -> str:
    """Return what a sentence calls a mechanism."""
    return MECHANISMS[mechanism].loss if mechanism in MECHANISMS else mechanism


def _quantile(of: SavedExplanation, policy: str, quantile: float) -> float:
    times = next(d.times_s for d in of.distributions if d.policy == policy)
    return float(np.quantile(times, quantile))
