"""Plans which slow node gets which step, and says why the others wait. It only computes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pagelens.site.config import ActSection
from pagelens.site.decision import State
from pagelens.site.history import Action
from pagelens.site.slurm import MARK, SlurmNode
from pagelens.site.standing import Standing
from pagelens.units import format_rate, format_share

NOT_DONE = "not done"  # how the results begin of actions that never happened
_DAY_S = 86400.0
_ROUNDING = 1e-9  # allowed, where a share of a partition is a whole number of nodes


@dataclass(frozen=True)
class Planned:
    """The step for a node, or why there is none: then `step` is empty."""

    node: str
    step: str
    why: str
    figures: dict[str, Any] = field(default_factory=dict)


def plan_actions(
    standings: Sequence[Standing],
    nodes: Mapping[str, SlurmNode],
    past: Sequence[Action],
    busy: frozenset[str],
    section: ActSection,
    now: float,
) -> list[Planned]:
    """Return one entry for each slow node, the slowest first. The nodes in `busy` are being cleaned."""
    slow = sorted(
        (one for one in standings if one.state is State.slow), key=lambda one: (-one.slowdown, one.node)
    )
    room = _Room(nodes, busy, section.most_share)
    planned = []
    for one in slow:
        obstacle = _obstacle(one, nodes, busy)
        step = "" if obstacle else _next_step(one, past, section, now)
        if not obstacle and not step:
            obstacle = f"all steps were tried ({', '.join(section.steps)}); people have to look at it"
        if not obstacle:
            obstacle = room.take(nodes[one.node])
        planned.append(Planned(one.node, "" if obstacle else step, obstacle or evidence(one), figures(one)))
    return planned


def evidence(one: Standing) -> str:
    """Return the figures that led to an action, in words for a reason in Slurm."""
    rates = f"{format_rate(one.figure)} where its peers have {format_rate(one.peers)}" if (
        one.figure and one.peers
    ) else "below its peers"  # fmt: skip
    return f"{rates}, evidence {one.evidence:.1f} after {one.jobs} checks"


def figures(one: Standing) -> dict[str, Any]:
    """Return the figures that led to an action, for the history."""
    return {
        "bytes_per_second": one.figure,
        "peers": one.peers,
        "z": one.z,
        "evidence": one.evidence,
        "checks": one.jobs,
        "boot": one.boot,
    }


def _obstacle(one: Standing, nodes: Mapping[str, SlurmNode], busy: frozenset[str]) -> str:
    if one.node not in nodes:
        return "Slurm has no such node; it has gone, or has another name now"
    node = nodes[one.node]
    if not node.is_ours:
        return f"it has a reason that is not ours: {node.reason[:80]}"
    if node.is_out:
        state = "+".join(sorted(node.states)).lower()
        return f"it is {state}" + (f", as we asked ({node.reason[:120]})" if node.reason else "")
    if one.node in busy:
        return "its cleaning job is queued or runs"
    if not node.partitions:
        return "it is in no partition"
    return ""


def _next_step(one: Standing, past: Sequence[Action], section: ActSection, now: float) -> str:
    """Return the first step that was not tried since the node was last left alone for long."""
    since = now - section.again_after_days * _DAY_S
    tried = set()
    for action in past:
        recent = action.name == one.node and action.at >= since and not action.result.startswith(NOT_DONE)
        # If the node has the same boot after a reboot, somebody cancelled the reboot.
        counts = action.step != "reboot" or action.figures.get("boot") != one.boot
        if recent and counts:
            tried.add(action.step)
    return next((step for step in section.steps if step not in tried), "")


class _Room:
    """How many more nodes of each partition may be out at once."""

    def __init__(self, nodes: Mapping[str, SlurmNode], busy: frozenset[str], share: float) -> None:
        self._share = share
        self._size = Counter(part for node in nodes.values() for part in node.partitions)
        out = [node for node in nodes.values() if node.is_out or node.name in busy]
        self._out = Counter(part for node in out for part in node.partitions)

    def take(self, node: SlurmNode) -> str:
        """Count the node as out. Return why that is too much, if it is."""
        for part in node.partitions:
            most = math.floor(self._share * self._size[part] + _ROUNDING)
            if self._out[part] >= most:
                return (
                    f"{self._out[part]} of {self._size[part]} nodes of partition {part} are out, and "
                    f"act.most_share of {format_share(self._share)} allows {most}"
                )
        self._out.update(node.partitions)
        return ""


def reason_for(step: str, number: int, why: str) -> str:
    """Return the reason that Slurm shows, with the number of the action in the history."""
    return f"{MARK} {step} #{number}, {why}"
