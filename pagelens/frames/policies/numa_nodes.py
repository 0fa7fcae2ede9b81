"""Policies of machines with several NUMA nodes: who touches a page first, and where threads run."""

from dataclasses import dataclass

from pagelens.frames.numa_rule import NumaRule
from pagelens.frames.policies.commands import DROP_CACHES
from pagelens.frames.policies.policy import Costs, Policy, kernel_rule
from pagelens.frames.policies.remedy import Host, Job, Remedy

# A traced run is short, and the kernel waits for a second before it begins. So one policy takes the program
# to go on as long as a production run would (assumed).
LONGER = 100


@dataclass(frozen=True)
class Command(Remedy):
    """A command before the program's own, or an environment variable."""

    command: str

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return how to run the program with it."""
        return (self.command,)


@dataclass(frozen=True)
class ChangedProgram(Remedy):
    """A change of the program, which no command makes."""

    change: str  # says what has to be changed

    def run_options(self, job: Job, host: Host) -> str:
        """Say that the program has to be changed."""
        return self.change


@dataclass(frozen=True)
class DropCaches(Remedy):
    """Frees the page cache before the job, which takes root."""

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return the command."""
        return (DROP_CACHES,)


@dataclass(frozen=True)
class Balancing(Remedy):
    """A setting of the kernel, which takes root."""

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return the command."""
        return ("sysctl kernel.numa_balancing=1",)


@dataclass(frozen=True)
class Tiering(Remedy):
    """Two settings of the kernel, which take root."""

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return the commands."""
        return ("echo true > /sys/kernel/mm/numa/demotion_enabled", "sysctl kernel.numa_balancing=2")


POLICIES = (
    Policy(
        "touch",
        "first touch by the thread that uses each page",
        kernel_rule,
        numa=NumaRule("touch"),
        costs=Costs(code="a parallel loop that initialises, with the schedule of the loops that use it"),
        remedy=ChangedProgram(
            "the loop that initialises the object has to be made parallel as the loops that use it are"
        ),
        compared=True,
        needs_nodes=True,
    ),
    Policy(
        "interleave",
        "pages interleaved over the NUMA nodes",
        kernel_rule,
        numa=NumaRule("interleave"),
        costs=Costs(code="numactl --interleave, or mbind() on the object"),
        remedy=Command("numactl --interleave=all ./app"),
        compared=True,
        needs_nodes=True,
    ),
    Policy(
        "weighted",
        "pages interleaved by the bandwidth of the NUMA nodes",
        kernel_rule,
        numa=NumaRule("weighted"),
        costs=Costs(root="weights in /sys/kernel/mm/mempolicy", code="numactl --weighted-interleave"),
        remedy=Command("numactl --weighted-interleave=all ./app"),
        needs_nodes=True,
    ),
    Policy(
        "replicate",
        "objects that are written once and then read, copied to each NUMA node",
        kernel_rule,
        numa=NumaRule("replicate"),
        costs=Costs(memory="a copy on each NUMA node", code="threads that read the copy on their node"),
        remedy=ChangedProgram(
            "the program has to copy the object to each NUMA node, and each thread to read the near copy"
        ),
        compared=True,
        needs_nodes=True,
    ),
    Policy(
        "close",
        "threads on as few NUMA nodes as hold them",
        kernel_rule,
        numa=NumaRule(threads="close"),
        costs=Costs(code="OMP_PROC_BIND=close, or numactl --cpunodebind"),
        remedy=Command("OMP_PROC_BIND=close OMP_PLACES=cores ./app"),
        compared=True,
        needs_nodes=True,
    ),
    Policy(
        "balanced",
        "first touch, and NUMA balancing that moves pages",
        kernel_rule,
        numa=NumaRule(balanced=True),
        costs=Costs(root="kernel.numa_balancing = 1"),
        remedy=Balancing(),
        needs_nodes=True,
    ),
    Policy(
        "balanced-long",
        f"first touch, and NUMA balancing in a run {LONGER} times as long",
        kernel_rule,
        numa=NumaRule(balanced=True, longer=LONGER),
        costs=Costs(root="kernel.numa_balancing = 1"),
        remedy=Balancing(),
        compared=True,
        needs_nodes=True,
    ),
    Policy(
        "tiered",
        "first touch, and hot pages promoted from slow NUMA nodes",
        kernel_rule,
        numa=NumaRule(tiered=True),
        costs=Costs(root="kernel.numa_balancing = 2, demotion_enabled"),
        remedy=Tiering(),
        needs_nodes=True,
        needs_tiers=True,
    ),
    Policy(
        "tiered-long",
        f"first touch, and hot pages promoted in a run {LONGER} times as long",
        kernel_rule,
        numa=NumaRule(tiered=True, longer=LONGER),
        costs=Costs(root="kernel.numa_balancing = 2, demotion_enabled"),
        remedy=Tiering(),
        compared=True,
        needs_nodes=True,
        needs_tiers=True,
    ),
    Policy(
        "unbound",
        f"threads that the scheduler moves between NUMA nodes, in a run {LONGER} times as long",
        kernel_rule,
        numa=NumaRule(threads="unbound", longer=LONGER),
        needs_nodes=True,
    ),
    Policy(
        "drop-caches",
        "the page cache dropped before the job",
        kernel_rule,
        steps="drop_caches",
        costs=Costs(root="drop_caches before each job"),
        remedy=DropCaches(),
        compared=True,
        needs_nodes=True,
    ),
)
