"""A placement policy: what happens to a node before a job starts, and which frames the job then gets."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pagelens import _core
from pagelens.address.units import FRAME_BITS, HUGE_PAGE_BITS
from pagelens.errors import UsageError
from pagelens.frames.language import parse_history, with_boot
from pagelens.frames.live_node import LiveNode
from pagelens.frames.node import Node
from pagelens.frames.numa_rule import FIRST_TOUCH, NumaRule
from pagelens.frames.policies.remedy import Remedy
from pagelens.frames.steps import Boot, Step
from pagelens.machine import Machine, list_machines, load_machine
from pagelens.units import format_binary_size

SMALL_ORDER, HUGE_ORDER = 0, HUGE_PAGE_BITS - FRAME_BITS  # of buddy blocks that are one page

Rule = Callable[[Machine, Node, LiveNode], _core.Placement]


@dataclass(frozen=True)
class Costs:
    """What a user pays for a policy. An empty string means nothing."""

    root: str = ""
    memory: str = ""
    code: str = ""


@dataclass(frozen=True)
class Policy:
    """A way to place a job's pages on the frames of a node.

    `steps` happen on the node after its own history. Then `rule` gets the machine, the node and the node's
    state, and returns the placement. `placed_by` makes a rule of a function on numpy arrays.
    """

    name: str
    title: str
    rule: Rule
    steps: str = ""  # a history without `boot` (docs/frames.md)
    boot: Mapping[str, bool] = field(default_factory=dict)  # options of the kernel that the history boots
    page_bits: int = FRAME_BITS  # log2 of the page size that large mappings get
    costs: Costs = Costs()
    remedy: Remedy | None = None  # None for a state that a node is found in and nobody chooses
    compared: bool = False  # whether to compare it if the user names no policies
    needs_cache: bool = False  # makes a difference only in front of a memory-side cache
    # What decides the frames that a job gets, besides the machine and the program.
    decided_by: Literal["draws of the node", "state of the node", "nothing else"] = "draws of the node"
    offset_bytes: int = 0  # between each large array and the one before it (Workload.compile)
    # The rule for pages and threads on a machine of several NUMA nodes.
    numa: NumaRule = FIRST_TOUCH
    needs_nodes: bool = False  # makes a difference only there
    needs_tiers: bool = False  # makes a difference only if some of these nodes are of a lower tier of memory
    setting: str = ""  # a setting of the machine, whose file is then NAME-SETTING

    def machine(self, machine: Machine) -> Machine:
        """Return the machine with the policy's setting.

        Raises UsageError if there is no such machine file.
        """
        return _with_setting(machine.name, self.setting) if self.setting else machine

    @property
    def suits_larger_pages(self) -> bool:
        """Whether it is modelled for kernels whose pages are larger than 4 KiB."""
        return self.rule in (kernel_rule, huge_rule) and not self.numa.moves_pages

    def places_alike(self, node: Node) -> bool:
        """Say whether a job gets the same frames on all other nodes of which this is true."""
        if self.steps or self.boot or self.decided_by == "draws of the node":
            return False
        return self.decided_by == "nothing else" or node.is_fresh

    def place(self, machine: Machine, node: Node) -> _core.Placement:
        """Return the placement of a job on this node. It can be replayed many times."""
        if machine.page_order and not self.suits_larger_pages:
            raise UsageError(
                f"policy: '{self.name}' is modelled for kernels with pages of 4 KiB, and that of "
                f"{machine.name} has {format_binary_size(machine.page_bytes)}; leave it out"
            )
        history = with_boot(node.history, dict(self.boot)) if self.boot else None
        return self.rule(machine, node, node.on(machine).after(_steps(self.steps), history))


def kernel_rule(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    """Let Linux give the job pages of the kernel's own size, mostly 4 KiB."""
    return _core.place_by_kernel(at.state, SMALL_ORDER)


def huge_rule(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    """Let Linux give large mappings pages of 2 MiB."""
    return _core.place_by_kernel(at.state, HUGE_ORDER)


@functools.cache
def _with_setting(name: str, setting: str) -> Machine:
    known = list_machines()
    if f"{name}-{setting}" not in known:
        have = [twin.removesuffix(f"-{setting}") for twin in known if twin.endswith(f"-{setting}")]
        raise UsageError(f"{name} has no setting '{setting}', only {', '.join(have)} have; leave it out")
    return load_machine(f"{name}-{setting}")


def _steps(text: str) -> tuple[Step, ...]:
    return tuple(step for step in parse_history(text) if not isinstance(step, Boot)) if text else ()
