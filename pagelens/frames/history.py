"""Nodes of a fleet: each runs its history once, and policies branch from it."""

from collections.abc import Sequence

from pagelens import _core
from pagelens.frames.language import parse_history
from pagelens.frames.node import LiveNode
from pagelens.frames.steps import Run, Step
from pagelens.machine import Machine

LARGEST_GRAIN = 64  # frames a unit: conflict shares within a point of grain 1 (tests/python/test_grain.py)
FLEET_UNITS = 2**19  # units that a node of a fleet has at most, unless it is larger than 128 GiB
DEFAULT_HISTORY = "boot; age(mix=cori); run"


class Node:
    """One node, determined by (seed, node, history) alone.

    `after` gives the node as it is after more steps: a snapshot that placements copy and nothing changes.
    Draws of a step depend on its position, so histories with a common beginning agree on it.
    """

    def __init__(
        self,
        machine: Machine,
        seed: int,
        node: int,
        grain: int | None = None,
        history: Sequence[Step] | None = None,
        scale: float = 1.0,
        job_bytes: float | None = None,
    ) -> None:
        """`grain` is 1 (exact) to 64 frames a unit, the fleet's if none is given; `job_bytes` the program's
        size, for `run` in between.
        """
        grain = grain or fleet_grain(machine.frames)
        self.seed, self.node = seed, node
        self.history = tuple(history) if history is not None else parse_history(DEFAULT_HISTORY)
        self._machine, self._grain, self._scale, self._job_bytes = machine, grain, scale, job_bytes
        self._known: dict[tuple[Step, ...], LiveNode] = {}

    @property
    def aged(self) -> LiveNode:
        """As its history left it."""
        return self.after(())

    @property
    def jobs_since_boot(self) -> int:
        """Jobs that its history ran."""
        return self.aged.jobs_since_boot

    def after(self, more: Sequence[Step], history: Sequence[Step] | None = None) -> LiveNode:
        """The node after its history (or another one) and more steps; kept for the next time."""
        base = _without_last_run(history or self.history)
        if base not in self._known:
            self._known[base] = self._run(self._fresh(), base, 0)
        steps = (*base, *more)
        if steps not in self._known:
            self._known[steps] = self._run(self._known[base].branch(), tuple(more), len(base))
        return self._known[steps]

    def _fresh(self) -> LiveNode:
        return LiveNode.fresh(self._machine, self._grain, self._scale, self._job_bytes)

    def _run(self, node: LiveNode, steps: tuple[Step, ...], first: int) -> LiveNode:
        for position, step in enumerate(steps, first):
            step.run(node, _core.Random(self.seed, self.node, position, _core.Stream.history))
        return node


def _without_last_run(history: Sequence[Step]) -> tuple[Step, ...]:
    """A last `run` is the program that is placed on the node."""
    steps = tuple(history)
    return steps[:-1] if isinstance(steps[-1], Run) else steps


def fleet_grain(frames: int) -> int:
    """Frames a unit that bound the cost of a history: 64 where a node has 96 GiB, 1 where it has 2 GiB."""
    return int(min(LARGEST_GRAIN, 1 << (-(-frames // FLEET_UNITS) - 1).bit_length()))


def age_node(machine: Machine, seed: int, node: int, grain: int | None = None) -> Node:
    """A node with the default history."""
    return Node(machine, seed, node, grain)
