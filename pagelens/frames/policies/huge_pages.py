"""Pages of 2 MiB, from the kernel's pool if it has enough of them, else transparent ones."""

from dataclasses import dataclass

from pagelens.address.units import HUGE_PAGE_BITS, HUGE_PAGE_BYTES
from pagelens.frames.policies.policy import Costs, Policy, huge_rule
from pagelens.frames.policies.remedy import Host, Job, Remedy, RunOptions


@dataclass(frozen=True)
class HugePages(Remedy):
    """Uses `pagelens run --pages 2m` or `--pages thp`."""

    summary = "2 MiB pages"
    command = "pagelens run --pages thp -- ./app"

    def run_options(self, job: Job, host: Host) -> RunOptions | str:
        """Take the pool if it has room for the whole job."""
        if host.free_pool_bytes.get(HUGE_PAGE_BYTES, 0) >= job.size_bytes:
            return RunOptions("2m", HUGE_PAGE_BYTES)
        if host.transparent_huge_pages:
            return RunOptions("thp", HUGE_PAGE_BYTES)
        return "the pool has too few free pages of 2 MiB (vm.nr_hugepages), and transparent ones are off"

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return how to run a program with it: the pool is empty on most hosts."""
        in_pool = host.free_pool_bytes.get(HUGE_PAGE_BYTES, 0) >= job.size_bytes
        return ("pagelens run --pages 2m -- ./app" if in_pool else self.command,)


POLICIES = (
    Policy(
        "2m",
        "2 MiB pages on the aged node",
        huge_rule,
        page_bits=HUGE_PAGE_BITS,
        costs=Costs(
            memory="up to 2 MiB more a mapping",
            code="madvise, or none where transparent huge pages are always on",
        ),
        remedy=HugePages(),
        compared=True,
        decided_by="state of the node",
    ),
)
