"""Placement policies: a history and a placement rule each, and what each costs its user."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pagelens import _core
from pagelens.errors import UsageError
from pagelens.frames.history import Node
from pagelens.frames.language import parse_history, with_boot
from pagelens.frames.node import LiveNode
from pagelens.frames.steps import Boot, Step
from pagelens.machine import Machine, list_machines, load_machine

SMALL_PAGE_BITS, HUGE_PAGE_BITS, GIGANTIC_PAGE_BITS = 12, 21, 30
SHUFFLE_ABOVE = 0.25  # of lines that push another out: then an adaptive mapping shuffles (assumed)
SMALL_ORDER, HUGE_ORDER = 0, HUGE_PAGE_BITS - SMALL_PAGE_BITS


@dataclass(frozen=True)
class Costs:
    """What a user pays for a policy; an empty string is nothing."""

    root: str = ""
    memory: str = ""
    code: str = ""


@dataclass(frozen=True)
class Policy:
    """A way to place a job's pages: the node's history, these steps after it, and a rule; and, where a
    modifier asks for it, how the program's arrays lie and how the machine is set (modifiers.py).
    """

    name: str
    title: str
    rule: Callable[[Machine, Node, LiveNode], _core.Placement]
    steps: str = ""  # after the node's own history
    boot: Mapping[str, bool] = field(default_factory=dict)  # options of the kernel that the history boots
    page_bits: int = SMALL_PAGE_BITS  # log2 of the page size that large mappings get
    costs: Costs = Costs()
    remedy: bool = False  # something a user can choose, as opposed to a state that one finds a node in
    offset_bytes: int = 0  # for Workload.compile: between each large array and the one before it
    setting: str = ""  # of the machine, which with it is NAME-SETTING

    def machine(self, machine: Machine) -> Machine:
        """The machine as the policy has it set. Raises UsageError where it has no such setting."""
        return _twin(machine.name, self.setting) if self.setting else machine

    def place(self, machine: Machine, node: Node) -> _core.Placement:
        """The recipe that replays open."""
        history = with_boot(node.history, dict(self.boot)) if self.boot else None
        return self.rule(machine, node, node.after(_steps(self.steps), history))


@functools.cache
def _twin(name: str, setting: str) -> Machine:
    known = list_machines()
    if f"{name}-{setting}" not in known:
        have = [twin.removesuffix(f"-{setting}") for twin in known if twin.endswith(f"-{setting}")]
        raise UsageError(f"{name} has no setting '{setting}', only {', '.join(have)} have; leave it out")
    return load_machine(f"{name}-{setting}")


def _steps(text: str) -> tuple[Step, ...]:
    return tuple(step for step in parse_history(text) if not isinstance(step, Boot)) if text else ()


def _kernel(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_by_kernel(at.state, SMALL_ORDER)


def _huge(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_by_kernel(at.state, HUGE_ORDER)


def _gigantic(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_in_gigabytes(at.state)


def _numa_node(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_by_numa_node(at.state)


def _contiguous(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_contiguously(machine.frames)


def _random(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_at_random(machine.frames, node.seed, node.node)


def _deterministic(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_at_random(machine.frames, 0, 0)


def _adaptive(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_adaptively(at.state, SHUFFLE_ABOVE, node.seed, node.node)


def _coloured(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_by_colour(at.state.memory, at.slots, SMALL_ORDER)


def _least_populated(machine: Machine, node: Node, at: LiveNode) -> _core.Placement:
    return _core.place_by_colour(at.state.memory, at.slots, HUGE_ORDER)


_POLICIES = (
    Policy("aged", "4 KiB pages on a node as jobs left it", _kernel),
    Policy(
        "aged+zonesort",
        "4 KiB pages after dropping caches, compaction and zonesort (docs/zonesort.md)",
        _kernel,
        steps="drop_caches; compact; zonesort",
        costs=Costs(root="a kernel module and a prologue that drops caches and compacts"),
        remedy=True,
    ),
    Policy(
        "aged+intel-zonesort",
        "the same with the rule of Intel's module of 2017",
        _kernel,
        steps="drop_caches; compact; zonesort(intel)",
        costs=Costs(root="a kernel module and a prologue that drops caches and compacts"),
        remedy=True,
    ),
    Policy("random", "4 KiB pages, independent random frames", _random),
    Policy("deterministic", "4 KiB pages, one random map for all nodes and runs", _deterministic),
    Policy(
        "contiguous",
        "contiguous frames from the bottom of memory",
        _contiguous,
        costs=Costs(root="a reboot or another kernel"),
    ),
    Policy(
        "shuffled",
        "4 KiB pages on an aged kernel that shuffles its largest blocks",
        _kernel,
        boot={"shuffle": True},
        costs=Costs(root="page_alloc.shuffle=1 at boot"),
        remedy=True,
    ),
    Policy(
        "numa-fake",
        "4 KiB pages, bound to NUMA nodes as large as the cache",
        _numa_node,
        boot={"fake": True},
        costs=Costs(root="numa=fake= at boot", memory="", code="numactl, or --mem-bind of the batch system"),
        remedy=True,
    ),
    Policy(
        "adaptive",
        "4 KiB pages on the aged node, moved to random frames when conflicts climb while the program runs",
        _adaptive,
        costs=Costs(root="a kernel that watches the counter of conflicts and migrates pages"),
        remedy=True,
    ),
    Policy(
        "2m",
        "2 MiB pages on the aged node",
        _huge,
        page_bits=HUGE_PAGE_BITS,
        costs=Costs(
            memory="up to 2 MiB more a mapping",
            code="madvise, or none where transparent huge pages are always on",
        ),
        remedy=True,
    ),
    Policy(
        "1g",
        "1 GiB pages reserved at boot",
        _gigantic,
        page_bits=GIGANTIC_PAGE_BITS,
        costs=Costs(
            root="hugepages= at boot", memory="up to 1 GiB more a mapping", code="hugetlbfs or libhugetlbfs"
        ),
        remedy=True,
    ),
    Policy(
        "coloured",
        "4 KiB pages, frames chosen to fill the slots evenly",
        _coloured,
        costs=Costs(
            root="CAP_SYS_ADMIN to read frame numbers",
            memory="as much again while choosing",
            code="preloaded library",
        ),
        remedy=True,
    ),
    Policy(
        "johnny-static",
        "2 MiB pages, each into the least populated part of the cache (Johnny Cache's static policy)",
        _least_populated,
        page_bits=HUGE_PAGE_BITS,
        costs=Costs(
            root="two hook patches to the kernel, or frame numbers read with CAP_SYS_ADMIN",
            memory="up to 2 MiB more a mapping",
            code="hugetlbfs",
        ),
        remedy=True,
    ),
)
policies: dict[str, Policy] = {policy.name: policy for policy in _POLICIES}
