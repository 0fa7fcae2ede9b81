"""The machine that a remedy works on: this one, or a guest of the lab, which offers the same calls."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pagelens.errors import UsageError
from pagelens.host.commands import CommandRunner
from pagelens.host.virtual_machine import in_virtual_machine
from pagelens.units import format_binary_size

NODES = "/sys/devices/system/node"
_MOST_CACHE = 1 << 40  # far beyond any; what is kept of its slots still fits in memory


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, and other signals that would end this process, until the end of the block."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda received, _: came.append(received))
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrived in came:
            signal.raise_signal(arrived)


def require_cache(cache_bytes: int, whole: int) -> None:
    """Raise UsageError unless `whole` bytes fit a whole number of times into a cache of that size."""
    if not 0 < cache_bytes <= _MOST_CACHE or cache_bytes % whole:
        raise UsageError(
            f"--cache {cache_bytes} bytes: a multiple of {format_binary_size(whole)}, "
            f"at most {format_binary_size(_MOST_CACHE)}"
        )


def require_node(system: CommandRunner, node: int) -> None:
    """Raise UsageError unless the machine has the node."""
    listed = system.shell(f"cd {NODES} && echo node[0-9]*")
    names = listed.output.split() if listed.status == 0 else []
    if f"node{node}" not in names:
        known = ", ".join(sorted(name.removeprefix("node") for name in names)) or "none that are known"
        raise UsageError(f"--node {node}: there is no such node; this machine has {known}")


def require_real_frames(virtual_allowed: bool, root: Path = Path("/")) -> None:
    """Raise UsageError unless root runs this, where the kernel sees the memory's own frames."""
    if os.geteuid() != 0:
        raise UsageError("the kernel shows and moves frames for root only; run it as root")
    if in_virtual_machine(root) and not virtual_allowed:
        raise UsageError(
            "this is a virtual machine, its frames are not those of the memory: their order changes nothing; "
            "run it on the host, or add --virtual where the guest's memory is pinned in one piece"
        )
