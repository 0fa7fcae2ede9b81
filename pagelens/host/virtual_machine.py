"""Tells whether pagelens runs in a virtual machine, whose frame numbers are not physical addresses."""

from pathlib import Path

from pagelens.host.system import System


def in_virtual_machine(root: Path = Path("/")) -> bool:
    """Return whether the processor's flags name a hypervisor; False if /proc/cpuinfo cannot be read.

    `root` holds proc/.
    """
    lines = System(root).text("/proc/cpuinfo").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return "hypervisor" in flags.split()
