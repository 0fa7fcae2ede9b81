"""The readers of pagelens.host, and the functions that rooms above build on them."""

from pathlib import Path

import numpy as np
import pytest
from machine_roles import SNOOP_FILTER

from pagelens.address.pages import Pages
from pagelens.audit.node import audit
from pagelens.conflicts.analysis import conflicts
from pagelens.errors import UsageError
from pagelens.host.huge_page_pools import Pool, pool_sizes, read_pool
from pagelens.host.system import System

HUGE = 2 << 20


def test_pools_are_read_for_the_system_and_for_a_numa_node(tmp_path: Path) -> None:
    files = {
        "sys/kernel/mm/hugepages/hugepages-2048kB": {"nr": 8, "free": 5, "resv": 2},
        "sys/devices/system/node/node1/hugepages/hugepages-2048kB": {"nr": 3, "free": 1},
        "sys/kernel/mm/hugepages/hugepages-1048576kB": {"nr": 0, "free": 0},
    }
    for folder, counts in files.items():
        (tmp_path / folder).mkdir(parents=True)
        for name, count in counts.items():
            (tmp_path / folder / f"{name}_hugepages").write_text(f"{count}\n")
    system = System(tmp_path)
    assert pool_sizes(system) == [HUGE, 1 << 30]
    assert read_pool(system, HUGE) == Pool(8, 5, 2, None, None)
    assert read_pool(system, HUGE, 1) == Pool(3, 1, None, None, None)
    assert read_pool(system, HUGE, 2) == Pool(None, None, None, None, None)


def test_an_audit_says_which_findings_it_has(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    found = audit(tmp_path)
    assert found.probe is None
    assert found.to_json()["schema"] == "pagelens audit"
    assert repr(found).startswith("<AuditReport of ")
    with pytest.raises(UsageError, match="a probe takes memory of this machine"):
        audit(tmp_path, probe="8GiB")
    with pytest.raises(UsageError, match="--page-size 3m"):
        audit(tmp_path, page_size="3m")


def test_conflicts_takes_pages_or_a_process() -> None:
    pages = Pages(np.arange(16, dtype=np.uint64) * np.uint64(HUGE), np.full(16, HUGE))
    found = conflicts(pages, machine=SNOOP_FILTER)
    assert found.swaps is None
    assert found.to_json()["pages"] == 16
    assert f"16 pages on {SNOOP_FILTER}" in repr(found)
    with pytest.raises(UsageError, match="either --frames FILE or --pid PID"):
        conflicts(machine=SNOOP_FILTER)
    others = Pages(pages.addresses + np.uint64(16 * HUGE), pages.sizes)
    assert conflicts(pages, machine=SNOOP_FILTER, pool=others, swaps=0).swaps == ()
