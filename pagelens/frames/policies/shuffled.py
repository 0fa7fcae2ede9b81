"""A kernel that shuffles its largest free blocks (Linux 5.2, page_alloc.shuffle=1)."""

from dataclasses import dataclass

from pagelens.frames.policies.commands import at_boot
from pagelens.frames.policies.policy import Costs, Policy, kernel_rule
from pagelens.frames.policies.remedy import Host, Job, Remedy


@dataclass(frozen=True)
class Shuffle(Remedy):
    """An option of the kernel's command line."""

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return how to boot with it."""
        return at_boot("page_alloc.shuffle=1")


POLICIES = (
    Policy(
        "shuffled",
        "4 KiB pages on an aged kernel that shuffles its largest blocks",
        kernel_rule,
        boot={"shuffle": True},
        costs=Costs(root="page_alloc.shuffle=1 at boot"),
        remedy=Shuffle(),
    ),
)
