"""Finds the NUMA nodes that are fast memory, from the kernel (HMAT) or from the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pagelens.errors import UsageError
from pagelens.host.numa_nodes import NumaNode, read_nodes
from pagelens.host.system import System
from pagelens.machine.detect.processor import read_processor
from pagelens.place.plan import MOST_NODE

_MCDRAM = {0x57, 0x85}  # models of Intel's family 6 whose nodes without processors are MCDRAM: KNL, KNM


@dataclass(frozen=True)
class Tiers:
    """NUMA nodes by their numbers."""

    fast: tuple[int, ...]
    slow: tuple[int, ...]  # empty: where memory comes from without a word is slow
    fast_bytes: int | None  # all fast nodes together; None if nobody says


NO_TIERS = Tiers((), (), None)  # of a plan that names nodes only


def find_tiers(system: System) -> Tiers | None:
    """Return the fast nodes, and the slow ones if memory would otherwise come from fast ones.

    Nodes with processors are compared with those without, by the bandwidth of each. Returns None if there is
    only one kind, or if nothing says which kind is faster.
    """
    nodes = [node for node in read_nodes(system) if _number(node) is not None]
    near, far = [node for node in nodes if node.cpus], [node for node in nodes if not node.cpus]
    if not near or not far:
        return None
    rates = _mean_rate(near), _mean_rate(far)
    if rates[0] is None or rates[1] is None:
        return _tiers(far, []) if _has_mcdram(system) else None
    if rates[0] == rates[1]:
        return None
    return _tiers(far, []) if rates[1] > rates[0] else _tiers(near, far)


def chosen_tiers(system: System, fast: int, slow: int | None) -> Tiers:
    """Return the nodes that the user names. Raises UsageError for nodes that do not exist."""
    nodes = {_number(node): node for node in read_nodes(system)}
    for option, number in (("--fast-node", fast), ("--slow-node", slow)):
        if number is not None and number not in nodes:
            known = sorted(number for number in nodes if number is not None)
            here = ", ".join(map(str, known)) or "the kernel shows none"
            raise UsageError(f"{option} {number}: no such node with memory; here: {here}")
    if fast == slow:
        raise UsageError(f"--slow-node {slow}: is the fast node, too; name another, or leave it out")
    return _tiers([nodes[fast]], [] if slow is None else [nodes[slow]])


def _tiers(fast: Sequence[NumaNode], slow: Sequence[NumaNode]) -> Tiers:
    numbers = [
        tuple(number for node in nodes if (number := _number(node)) is not None) for nodes in (fast, slow)
    ]
    return Tiers(numbers[0], numbers[1], sum(node.size for node in fast))


def _number(node: NumaNode) -> int | None:
    match = re.fullmatch(r"node([0-9]{1,4})", PurePosixPath(node.path).name)
    return int(match[1]) if match and int(match[1]) <= MOST_NODE else None


def _mean_rate(nodes: Sequence[NumaNode]) -> float | None:
    rates = [node.bandwidth for node in nodes if node.bandwidth]
    return sum(rates) / len(rates) if len(rates) == len(nodes) else None


def _has_mcdram(system: System) -> bool:
    processor = read_processor(system)
    return processor.vendor == "GenuineIntel" and processor.family == 6 and processor.model in _MCDRAM
