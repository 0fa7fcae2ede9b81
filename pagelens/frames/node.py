"""A node of a fleet. It runs its history once, and every policy starts from a copy of the result."""

from __future__ import annotations

from collections.abc import Sequence

from pagelens import _core
from pagelens.frames.language import parse_history
from pagelens.frames.live_node import LiveNode
from pagelens.frames.steps import Age, Boot, Run, Step
from pagelens.machine import Machine

LARGEST_GRAIN = 64  # frames a unit; keeps conflict shares within a point (tests/python/test_grain.py)
FLEET_UNITS = 2**19  # most units of a node, unless it has more than 128 GiB
DEFAULT_HISTORY = "boot; age(mix=cori); run"


class Node:
    """One node, determined by (seed, node, history) alone.

    The random draws of a step depend on its position. So two histories that begin with the same steps lead to
    the same states up to the first difference.
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
        """`grain` is the number of frames in a unit of the model: 1 (exact) to 64, `fleet_grain` by default.

        `scale` multiplies the sizes in the history. `job_bytes` is the size of the program, which a `run`
        before the last step needs.
        """
        order = machine.page_order
        grain = grain or fleet_grain(machine.frames >> order, LARGEST_GRAIN >> order)
        self.seed, self.node = seed, node
        self.history = tuple(history) if history is not None else parse_history(DEFAULT_HISTORY)
        self._machine, self._grain, self._scale, self._job_bytes = machine, grain, scale, job_bytes
        self._known: dict[tuple[Step, ...], LiveNode] = {}
        self._with_other_nodes: dict[str, Node] = {}

    def on(self, machine: Machine) -> Node:
        """Return the node that this one is if a setting of the machine divides its memory differently."""
        if machine.topology.sizes == self._machine.topology.sizes:
            return self
        if machine.name not in self._with_other_nodes:
            self._with_other_nodes[machine.name] = Node(
                machine, self.seed, self.node, self._grain, self.history, self._scale, self._job_bytes
            )
        return self._with_other_nodes[machine.name]

    @property
    def aged(self) -> LiveNode:
        """The node in the state that its history left."""
        return self.after(())

    @property
    def jobs_since_boot(self) -> int:
        """The jobs that its history ran."""
        return self.aged.jobs_since_boot

    @property
    def is_fresh(self) -> bool:
        """Whether its memory is as the kernel found it at boot, like that of all such nodes."""
        untouched = all(
            not step.shuffle if isinstance(step, Boot) else isinstance(step, Age)
            for step in _without_last_run(self.history)
        )
        return untouched and self.jobs_since_boot == 0

    def after(self, more: Sequence[Step], history: Sequence[Step] | None = None) -> LiveNode:
        """Return the node after its history, or after `history`, and `more` steps.

        The result is kept for the next call. Copy it before you change it.
        """
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
    """Leave out a last `run`, which is the program that will be placed on the node."""
    steps = tuple(history)
    return steps[:-1] if isinstance(steps[-1], Run) else steps


def fleet_grain(frames: int, largest: int = LARGEST_GRAIN) -> int:
    """Return the grain that bounds the cost of a history: 64 for 96 GiB, 1 for 2 GiB."""
    return int(min(largest, 1 << (-(-frames // FLEET_UNITS) - 1).bit_length()))


def age_node(machine: Machine, seed: int, node: int, grain: int | None = None) -> Node:
    """Return a node with the default history."""
    return Node(machine, seed, node, grain)
