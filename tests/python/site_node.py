"""A node of a site as a captured tree that a Prolog can work on, with its configuration."""

import os
from pathlib import Path

POOL = "sys/kernel/mm/hugepages/hugepages-2048kB"
INTERVAL = "sys/kernel/zone_sort_free_pages/sort_interval"
SORT = "sys/kernel/zone_sort_free_pages/nodeid"
DROP, COMPACT = "proc/sys/vm/drop_caches", "proc/sys/vm/compact_memory"

_FILES = {
    DROP: "0",
    COMPACT: "0",
    SORT: "",
    INTERVAL: "0 sec",
    "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555",
    "proc/uptime": "1000.00 1900.00",
    "proc/meminfo": "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       16777216 kB",
    "sys/devices/system/node/node0/cpulist": "0-3",
    f"{POOL}/nr_hugepages": "7",
    f"{POOL}/free_hugepages": "7",
    f"{POOL}/resv_hugepages": "0",
    f"{POOL}/surplus_hugepages": "0",
    f"{POOL}/nr_overcommit_hugepages": "0",
}


class SiteNode:
    """Its files, and what was written into them."""

    def __init__(self, folder: Path, sections: str = "", module: bool = True) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.state = folder / "state"
        for name, text in _FILES.items():
            if module or "zone_sort" not in name:
                self.set(name, text)
        self.config = folder / "site.toml"
        self.config.write_text(
            f'[node]\nroot = "{self.root}"\nstate = "{self.state}"\nspool = "{folder}/spool"\n{sections}'
        )
        self.config.chmod(0o644)

    def set(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def get(self, name: str) -> str:
        return (self.root / name).read_text().strip()

    def blocked(self, name: str) -> None:
        """Makes a write to a setting take for ever, as compaction can."""
        (self.root / name).unlink()
        os.mkfifo(self.root / name)

    def reboot(self, boot: str) -> None:
        for name, text in _FILES.items():
            self.set(name, text)
        self.set("proc/sys/kernel/random/boot_id", boot)


def job(number: int, **options: str) -> dict[str, str]:
    """The environment of a Prolog."""
    given = {f"SPANK_PAGELENS_{name.upper()}": value for name, value in options.items()}
    return {"SLURM_JOB_ID": str(number), "SLURM_JOB_UID": "1000", **given}
