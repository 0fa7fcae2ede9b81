"""Sorts the kernel's free lists by slots of the memory-side cache before the job (docs/zonesort.md)."""

from collections.abc import Iterable
from dataclasses import dataclass

from pagelens.frames.policies.commands import PREPARE, sort_nodes
from pagelens.frames.policies.policy import Costs, Policy, kernel_rule
from pagelens.frames.policies.remedy import Host, Job, Remedy

_COSTS = Costs(root="a kernel module and a prologue that drops caches and compacts")


def sort_commands(numa_nodes: Iterable[int]) -> tuple[str, ...]:
    """Return the commands that drop caches, compact, and have the module sort these NUMA nodes."""
    return (*PREPARE, "modprobe zonesort_module", *sort_nodes(numa_nodes))


@dataclass(frozen=True)
class Zonesort(Remedy):
    """Asks the kernel module to sort each NUMA node."""

    summary = "caches dropped, zonesort"

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return the steps of the policy: drop caches, compact, sort."""
        return sort_commands(host.numa_nodes)


POLICIES = (
    Policy(
        "aged+zonesort",
        "4 KiB pages after dropping caches, compaction and zonesort (docs/zonesort.md)",
        kernel_rule,
        steps="drop_caches; compact; zonesort",
        costs=_COSTS,
        remedy=Zonesort(),
        compared=True,
        needs_cache=True,
    ),
    Policy(
        "aged+intel-zonesort",
        "the same with the rule of Intel's module of 2017",
        kernel_rule,
        steps="drop_caches; compact; zonesort(intel)",
        costs=_COSTS,
        remedy=Remedy(),
    ),
)
