"""Prints the state of a fleet's nodes in at most 80 columns, with slow nodes first."""

import time
from collections.abc import Iterator

from pagelens.cli.text.tables import count_noun, join_sections, table, wrap
from pagelens.site import Calibration, FleetStatus, NodeStatus, Simulated, Standing

_MOST_ROWS = 40
_MOST_CHECKS = 12
_WIDTHS = (16, 8, -9, -9, -6, -5, 20)
_HEAD = ("node", "state", "last GB/s", "of peers", "age", "jobs", "mode")


def render_collected(new: int, known: int, invalid: int) -> str:
    """Return one line that says which records came in."""
    parts = [f"{count_noun(new, 'record')} taken in"]
    if known:
        parts.append(f"{known:,} known before")
    if invalid:
        parts.append(f"{invalid:,} set aside as invalid")
    return ", ".join(parts)


def render_fleet(fleet: FleetStatus) -> str:
    """Return the counts, and the nodes that need a look."""
    return join_sections([_summary(fleet), _nodes(fleet)])


def _summary(fleet: FleetStatus) -> Iterator[str]:
    total = sum(fleet.counts.values())
    if not total:
        yield "No node has been checked yet."
        return
    counts = ", ".join(f"{count:,} {state}" for state, count in fleet.counts.items())
    cost = ""
    if fleet.node_hours_a_day:
        cost = (
            f" The slow ones cost {fleet.node_hours_a_day:,.0f} node hours a day where jobs wait for memory "
            "alone (modelled)."
        )
    yield from wrap(f"{count_noun(total, 'node')}: {counts}.{cost}")


def _nodes(fleet: FleetStatus) -> Iterator[str]:
    shown = [each for each in fleet.nodes if each.state != "ok"] or list(fleet.nodes)
    if not shown:
        return
    yield from table(_HEAD, (_row(each, fleet) for each in shown[:_MOST_ROWS]), _WIDTHS)
    if len(shown) > _MOST_ROWS:
        yield f"and {len(shown) - _MOST_ROWS:,} more; --json lists all, --state names one state"
    yield "Of peers: the mean of a slow node's last ten checks, else its last one."


def _row(each: Standing, fleet: FleetStatus) -> tuple[str, ...]:
    lately = fleet.slow_shares.get(each.node, 1 / each.slowdown)
    share = f"{100 * lately:.0f}%" if each.figure and each.peers else "-"
    return (
        each.node,
        each.state,
        _rate(each.figure),
        share,
        _duration(fleet.at - each.booted),
        str(each.jobs),
        each.mode,
    )


def render_node(one: NodeStatus) -> str:
    """Return why the node is in its state, its last checks, and what was done to it."""
    return join_sections([_verdict(one), _checks(one), _actions(one)])


def _verdict(one: NodeStatus) -> Iterator[str]:
    each = one.standing
    yield from wrap(f"{each.node} is {each.state}: {each.reason}.")
    peers = f"; nodes of its kind reach {_rate(each.peers)} GB/s" if each.peers else ""
    yield from wrap(f"{each.hardware}, {each.mode}. The last check had {_rate(each.figure)} GB/s{peers}.")


def _checks(one: NodeStatus) -> Iterator[str]:
    yield "Checks, the newest first (z: standard deviations above the peers' median):"
    rows = (
        (
            time.strftime("%Y-%m-%d %H:%M", time.gmtime(check.at)),
            _duration(check.uptime),
            check.job or "-",
            _rate(check.figure),
            "-" if check.z is None else f"{check.z:+.1f}",
            "" if check.counted else "no evidence",
        )
        for check in reversed(one.checks[-_MOST_CHECKS:])
    )
    yield from table(
        ("UTC", "age", "after job", "GB/s", "z", ""), rows, (16, -6, 16, -8, -6, 12), indent="  "
    )


def _actions(one: NodeStatus) -> Iterator[str]:
    if not one.actions:
        return
    yield "What was done:"
    for action in one.actions[-_MOST_CHECKS:]:
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(action.at))
        result = f" ({action.result})" if action.result else ""
        yield from wrap(f"{when}  {action.step}: {action.reason}{result}", "  ", "      ")


def render_calibration(c: Calibration) -> str:
    """Return a table of the rules, and what its columns mean."""
    return join_sections([_tried_on(c), _rules(c), _how_to_read(c)])


def _tried_on(c: Calibration) -> Iterator[str]:
    yield from wrap(
        f"{count_noun(c.checks, 'check')} of {count_noun(c.nodes, 'node')} in {c.hours:,.0f} hours, "
        f"{c.checks_an_hour:,.0f} an hour. Of good nodes' checks {100 * c.low_share:.1f}% are low. "
        f"In hindsight {c.bad_boots:,} of {count_noun(c.boots, 'boot')} went bad."
    )


def _rules(c: Calibration) -> Iterator[str]:
    low = [f"low in {100 * delay.low_share:.0f}%" for delay in c.rules[0].delays]
    yield from table(("", "good nodes drained", "bad nodes are drained after", ""), (), (24, -26, -28, 1))
    rows = (
        (
            rule.name,
            f"{rule.false_drains_an_hour:.3g} ({rule.false_low:.2g}-{rule.false_high:.2g})",
            *(_delayed(delay.median_jobs, delay.median_hours) for delay in rule.delays),
        )
        for rule in c.rules
    )
    yield from table(("rule", "an hour (95%)", *low), rows, (27, -23, -14, -14))


def _delayed(jobs: float | None, hours: float | None) -> str:
    return "rarely" if jobs is None or hours is None else f"{jobs:.0f} ({hours:.0f} h)"


def _how_to_read(c: Calibration) -> Iterator[str]:
    yield from wrap(
        "Good nodes: this site's checks, dealt out to the nodes at random, so that no node is worse than "
        "another and every drain is false. Bad nodes: low figures of this site put into such checks; the "
        "median number of checks until the drain, and their hours."
    )


def render_simulated(s: Simulated) -> str:
    """Return a table of the policies, the inputs, and what was published."""
    return join_sections([_compared(s), _put_in(s), _published(s)])


def _compared(s: Simulated) -> Iterator[str]:
    yield "Thousands of node hours a year (modelled):"
    yield from table(("", "lost in", "", "", "gained", ""), (), (27, -9, -6, -8, -8, 17))
    rows = (
        (
            each.name,
            _thousands(each.slow_jobs.value),
            _thousands(each.sorting.value),
            _thousands(each.reboots.value),
            _thousands(each.gain.value),
            f"{_thousands(each.gain.low)} to {_thousands(each.gain.high)}",
        )
        for each in s.policies
    )
    heads = ("policy", "slow jobs", "sorts", "reboots", "in all", "95%")
    yield from table(heads, rows, (27, -9, -6, -8, -8, 17))


def _thousands(hours: float) -> str:
    return f"{hours / 1000:,.0f}" if abs(hours) >= 9_500 or hours == 0 else f"{hours / 1000:.1f}"


def _put_in(s: Simulated) -> Iterator[str]:
    i = s.inputs
    sizes = ", ".join(f"{100 * share:.0f}% on {count:,}" for count, share in (i.sizes or {}).items())
    yield from wrap(
        f"Inputs: {i.nodes:,} nodes, {i.jobs} jobs on each, {i.draws} draws, seed {i.seed}. Assumed: a job "
        f"takes {i.job_hours:g} h; the work runs on so many nodes a job: {sizes}; "
        f"{100 * i.memory_bound:.0f}% of the jobs' time waits for memory as MiniFE's does; a reboot takes "
        f"{i.reboot_hours:g} h, sorting before a job {i.sort_s:g} s, each periodic sort "
        f"{i.interval_sort_s:g} s; {100 * i.reallocated:.0f}% of a job's memory is allocated while it runs; "
        f"STREAM has {100 * i.noise:.1f}% of noise, and {100 * i.disturbed:.0f}% of the checks are disturbed."
    )


def _published(s: Simulated) -> Iterator[str]:
    yield from wrap(
        "*: Cori's policy. How nodes slow down is modelled (scripts/ageing_table.py). NERSC published that "
        "sorting doubles MiniFE's mean speed; here Intel's module gains "
        f"{s.intel_gain:.2f}x on the free lists of Linux 6.1, and this project's rule {s.sort_gain:.2f}x. "
        "NERSC published that about 18% of the checks are in the tail after hours, though nodes are sorted; "
        f"here {100 * s.tail_share:.0f}% are."
    )


def _rate(bytes_per_second: float | None) -> str:
    return "-" if bytes_per_second is None else f"{bytes_per_second / 1e9:.1f}"


def _duration(seconds: float) -> str:
    for unit, scale in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= scale:
            return f"{seconds / scale:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
