"""Reads the kernel's pools of huge pages (Documentation/admin-guide/mm/hugetlbpage.rst)."""

import re
from dataclasses import dataclass

from pagelens.host.numa_nodes import FOLDER
from pagelens.host.system import System

_POOLS = "/sys/kernel/mm/hugepages"
_SIZE = re.compile(r"hugepages-(\d{1,10})kB")


@dataclass(frozen=True)
class Pool:
    """The pages of one size, in the system or on one NUMA node. None is what the kernel does not say."""

    total: int | None
    free: int | None
    reserved: int | None  # free pages promised to mappings
    surplus: int | None  # pages beyond the size that was asked for
    overcommit: int | None  # the most surplus pages


def pool_folder(page_bytes: int, numa_node: int | None = None) -> str:
    """Return the folder of the files of a pool, such as nr_hugepages."""
    pools = _POOLS if numa_node is None else f"{FOLDER}/node{numa_node}/hugepages"
    return f"{pools}/hugepages-{page_bytes >> 10}kB"


def pool_sizes(system: System) -> list[int]:
    """Return the page sizes in bytes that the kernel has a pool for, smallest first."""
    return sorted(int(m[1]) << 10 for name in system.names(_POOLS) if (m := _SIZE.fullmatch(name)))


def read_pool(system: System, page_bytes: int, numa_node: int | None = None) -> Pool:
    """Return the state of a pool. A NUMA node's pool does not say what is reserved or overcommitted."""
    folder = pool_folder(page_bytes, numa_node)
    names = (
        "nr_hugepages",
        "free_hugepages",
        "resv_hugepages",
        "surplus_hugepages",
        "nr_overcommit_hugepages",
    )
    return Pool(*(system.number(f"{folder}/{name}") for name in names))
