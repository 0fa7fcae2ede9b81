"""Draws findings from a probe: the effect of its frames, and the best effect that a remedy would have."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from pagelens.audit.frame_rules import FILTER_SHARE
from pagelens.audit.model import Effect, Finding, Probe, ProbedPlacement, Severity
from pagelens.units import format_binary_size, format_share

BAD_SHARE, WARNING_SHARE = 0.25, 0.05  # of pages in conflict
MANY_ROW_CONFLICTS = 4.0  # times what random frames have
ABOUT = 0.01  # shares that differ by no more are about equal
WORTHWHILE = 0.8  # of the share now: what leaves more is no remedy
_CHEAPEST_FIRST = ("2m", "coloured", "aged+zonesort", "1g")  # nothing but a pool; root; a module; a reboot


def of_probe(probe: Probe) -> Iterator[Finding]:
    """Yield the findings of a probe whose frames were seen. A good finding needs no remedy."""
    for finding in _all(probe):
        if finding.severity is Severity.good:
            yield replace(finding, why="Nothing needs to be done.", remedy=())
        else:
            yield finding if probe.verified else replace(finding, seen=f"Unverified: {finding.seen}")


def _all(probe: Probe) -> Iterator[Finding]:
    probed = next((placement for placement in probe.placements if placement.name == "probed"), None)
    if probed is None:
        return
    size = format_binary_size(probe.size)
    share = probed.effect.conflict_share
    if share is not None:
        remedy, why = _best(probe, lambda effect: effect.conflict_share, share)
        yield Finding(
            _severity(probe, share, BAD_SHARE, WARNING_SHARE),
            "probe-cache",
            f"{format_share(share)} of the pages of a job of {size} share their slot of the memory-side "
            "cache with another of its pages.",
            f"When these pages are used in turn, they push each other out.{why}",
            remedy,
            share,
        )
    filter_share = probed.effect.filter_share
    if filter_share is not None:
        remedy, why = _best(probe, lambda effect: effect.filter_share, filter_share)
        yield Finding(
            _severity(probe, filter_share, 1.0, FILTER_SHARE),
            "probe-snoop-filter",
            f"{100 * filter_share:.1f}% of the lines that full L2s hold of such a job do not fit into the "
            f"snoop filter, and {100 * (probed.effect.filter_worst or 0):.1f}% in the worst part of the job.",
            f"These lines leave the L2s too.{why}",
            remedy,
            filter_share,
        )
    rows = probed.effect.row_conflicts
    random = next((p.effect.row_conflicts for p in probe.placements if p.name == "random"), None)
    if rows is not None and random is not None and rows > MANY_ROW_CONFLICTS * max(random, 0.01):
        remedy, why = _best(probe, lambda effect: effect.row_conflicts, rows)
        yield Finding(
            _severity(probe, 1.0, 2.0, 0.5),
            "probe-banks",
            f"Two streams through the halves of such a job are in one bank but in different rows at "
            f"{format_share(rows)} of their steps. On random frames this is {format_share(random)}.",
            f"Each such step closes the row of the other stream.{why}",
            remedy,
            rows,
        )


def _severity(probe: Probe, share: float, bad: float, warning: float) -> Severity:
    """Return the severity. An unverified finding is at most a note."""
    if share < warning:
        return Severity.good
    if not probe.verified:
        return Severity.note
    return Severity.bad if share >= bad else Severity.warning


def _best(probe: Probe, measure: Callable[[Effect], float | None], now: float) -> tuple[tuple[str, ...], str]:
    """Return the commands of the cheapest remedy that leaves about the least, and a sentence on it."""
    tried: list[tuple[float, ProbedPlacement]] = []
    for placement in probe.placements:
        left = measure(placement.effect)
        if placement.remedy and left is not None:
            tried.append((left, placement))
    if not tried:
        return (), ""
    least = min(left for left, _ in tried)
    near = [pair for pair in tried if pair[0] <= least + ABOUT]
    left, best = min(near, key=lambda pair: _CHEAPEST_FIRST.index(pair[1].name))
    if left > WORTHWHILE * now:
        return (), " No remedy that was tried reduces this much."
    return best.remedy, f" The best remedy is {best.title}, with which {100 * left:.1f}% would be left."
