"""How a policy is applied to a real machine, and whether its user can do that.

The facts of the machine are passed in as a `Host`, so that this package reads nothing of the machine itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pagelens.machine import Machine

NEEDS_ADMINISTRATOR = "it needs root, a reboot or another kernel, or is no choice of a run"


@dataclass(frozen=True)
class Host:
    """What a user has on a machine. The defaults stand for nothing."""

    # Unreserved bytes by the page size in bytes.
    free_pool_bytes: Mapping[int, int] = field(default_factory=dict)
    transparent_huge_pages: bool = False  # programs can ask for them
    sees_frames: bool = False  # has CAP_SYS_ADMIN
    virtual_machine: bool = False  # its frame numbers are not physical addresses
    numa_nodes: tuple[int, ...] = (0,)  # the nodes with processors


@dataclass(frozen=True)
class Job:
    """The job that a remedy is for."""

    size_bytes: int
    machine: Machine


@dataclass(frozen=True)
class RunOptions:
    """The options of `pagelens run` that apply a remedy to one program."""

    pages: str = ""  # --pages: "2m", "1g" or "thp"; empty: 4 KiB pages
    page_bytes: int = 4096
    period_bytes: int = 0  # --stagger --period; 0: blocks are not staggered
    cache_bytes: int = 0  # --frames best --cache; 0: frames stay as they come


class Remedy:
    """The remedy of a policy. This base class is a remedy that only an administrator can apply.

    Subclasses are frozen dataclasses, so that equal policies compare equal.
    """

    summary = ""  # a few words for tables of `pagelens audit --probe`
    command = ""  # runs ./app with it on most hosts, without root; empty if one command is not enough

    def run_options(self, job: Job, host: Host) -> RunOptions | str:
        """Return the options that apply it to one program, or the reason why this user cannot."""
        return NEEDS_ADMINISTRATOR

    def commands(self, job: Job, host: Host) -> tuple[str, ...]:
        """Return the shell commands that apply it on that host, in order; none if they are not known."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))
