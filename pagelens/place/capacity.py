"""The fast memory that a job may use: a size, a share of its footprint, or all that the machine has."""

from dataclasses import dataclass

from pagelens.errors import UsageError
from pagelens.machine import Machine
from pagelens.place.profile import Profile
from pagelens.units import parse_share, parse_size


@dataclass(frozen=True)
class Capacity:
    """Fast memory of one node: `node_bytes`, or the `share` (0 to 1) of the footprint of a rank's objects."""

    node_bytes: float = 0.0
    share: float | None = None

    def of_rank(self, profile: Profile) -> float:
        """Return the bytes of fast memory that one rank has."""
        if self.share is not None:
            return self.share * profile.footprint_bytes
        return self.node_bytes / profile.ranks


def parse_capacity(text: str | int | None, machine: Machine, name: str = "fast") -> Capacity:
    """Return the capacity for "4GiB", "50%", a number of bytes, or None for all that the machine has.

    Raises UsageError for a capacity that no program could have on the machine. The message calls the
    parameter `name`.
    """
    assert machine.fast_memory is not None
    most = machine.fast_memory.size
    if text is None:
        return Capacity(most.value)
    if isinstance(text, int):
        text = f"{text} B"
    if text.endswith("%"):
        return Capacity(share=parse_share(text, name))
    node_bytes = parse_size(text, name)
    if not 0 < node_bytes <= most.value:
        raise UsageError(
            f"{name}: {text}: {machine.name} has {most.shown} of fast memory; name 1 B to {most.shown}, "
            "or a share as 50%"
        )
    return Capacity(node_bytes)


def check_two_memories(machine: Machine, name: str = "machine") -> None:
    """Raise UsageError unless the machine has two memories, so that there is something to choose."""
    if machine.mode == "flat":
        return
    why = "has one memory" if machine.mode == "single" else f"has its fast memory in {machine.mode} mode"
    raise UsageError(
        f"{name}: {machine.name} {why}; name one in flat mode, such as cori-knl-flat, xeon-max-flat, "
        "cxl-tiered or gpu-host (`pagelens machines` lists all)"
    )
