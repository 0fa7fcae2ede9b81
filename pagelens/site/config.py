"""The site's configuration: one TOML file that root owns, read by every part of `pagelens site`.

Every key has a default, so an empty file is a valid one. docs/site.md describes each section.
"""

import os
import stat
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from pagelens.errors import UsageError
from pagelens.values.quantities import Bytes, Table
from pagelens.values.toml_file import parse_toml, read_bytes

DEFAULT_FILE = Path("/etc/pagelens/site.toml")
EXAMPLE = "docs/site.md"

Share = Annotated[float, Field(gt=0, le=1)]


def _absolute(text: object) -> object:
    if not isinstance(text, str):
        return text
    if not text.startswith("/"):
        raise ValueError(f"'{text}' is not an absolute path; begin it with /")
    return Path(text)


Folder = Annotated[Path, BeforeValidator(_absolute)]


class NodeSection(Table):
    """What all parts on a node share."""

    root: Folder = Field(default=Path("/"), description="the root of /proc and /sys; another one for tests")
    state: Folder = Field(
        default=Path("/var/lib/pagelens"), description="the node's state, which a crash must not lose"
    )
    spool: Folder = Field(
        default=Path("/var/spool/pagelens"), description="records of checks, until they are collected"
    )
    kind: str = Field(
        default="", description="the property by which nodes are compared with their like; empty: hardware"
    )
    machine: str = Field(
        default="", description="the machine, by name or file, whose banks are on jobs' pages; empty: none"
    )


class PrologSection(Table):
    """What is done to a node before a job."""

    drop_caches: bool = Field(default=True, description="give the page cache back")
    compact: bool = Field(default=True, description="move pages together")
    sort: Literal["auto", "off"] = Field(default="auto", description="sort free memory for the cache")
    cache: Bytes | None = Field(
        default=None, description="the memory-side cache, where the firmware does not say"
    )
    pool_share: Annotated[float, Field(ge=0, le=0.95)] = Field(
        default=0.7,
        description="the share of the available memory for the pool of a job that asks for pages of 2 MiB "
        "or 1 GiB",
    )
    least_interval_s: int = Field(default=10, ge=1, description="shortest --zonesort=SECONDS that is granted")
    forget_after_s: int = Field(
        default=172800, ge=60, description="a job without processes counts as running for so long at most"
    )
    budget_s: float = Field(default=10.0, gt=0, le=300, description="longest that the Prolog takes")


class EpilogSection(Table):
    """What is done to a node after a job."""

    budget_s: float = Field(default=10.0, gt=0, le=300, description="longest that the Epilog takes")


class MeasureSection(Table):
    """The check of a node that follows a job."""

    enabled: bool = True
    every_s: int = Field(default=3600, ge=0, description="least time between two checks of a node")
    budget_s: float = Field(default=20.0, gt=0, le=600, description="longest that a check takes")
    memory: Bytes | None = Field(
        default=None, description="the size of STREAM's arrays together; by default as much as is telling"
    )


class HistorySection(Table):
    """The controller's record of all checks and actions."""

    database: Folder = Path("/var/lib/pagelens/history.sqlite")


class DecisionSection(Table):
    """When a node counts as slow (CUSUM of a robust z-score against its peers)."""

    k: float = Field(default=2.0, gt=0, description="allowance of the sum, in standard deviations")
    h: float = Field(default=10.0, gt=0, description="the sum from which a node is slow")
    clip: float = Field(
        default=6.0, gt=0, description="the most standard deviations that one check counts for"
    )
    least_jobs: int = Field(default=3, ge=1, description="checks after different jobs that a verdict needs")
    least_peers: int = Field(default=8, ge=2, description="nodes of a kind that a comparison needs")


class ActSection(Table):
    """What is done about slow nodes."""

    dry_run: bool = Field(default=True, description="only say what would be done")
    steps: list[Literal["clean", "reboot", "drain"]] = Field(
        default=["clean", "reboot", "drain"], description="the steps that are tried, in this order"
    )
    most_share: Share = Field(
        default=0.05, description="the share of a partition's nodes that may be out at once"
    )
    again_after_days: float = Field(
        default=14.0, gt=0, description="after so long without an action a node begins with the first step"
    )
    clean_user: str = Field(
        default="root",
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
        description="who the cleaning job belongs to, where Slurm refuses jobs of root",
    )
    clean_budget_s: float = Field(default=300.0, gt=0, le=3600, description="longest that a cleaning takes")


class PageSection(Table):
    """The web page and the textfile for node_exporter."""

    host: str = "127.0.0.1"
    port: int = Field(default=8017, ge=1, le=65535)
    title: str = "Nodes"


class SiteConfig(Table):
    """The whole file."""

    node: NodeSection = NodeSection()
    prolog: PrologSection = PrologSection()
    epilog: EpilogSection = EpilogSection()
    measure: MeasureSection = MeasureSection()
    history: HistorySection = HistorySection()
    decision: DecisionSection = DecisionSection()
    act: ActSection = ActSection()
    page: PageSection = PageSection()


def read_config(path: Path = DEFAULT_FILE) -> SiteConfig:
    """Return what the file says. Raises UsageError, also if others than root could have changed the file."""
    raw = read_bytes(path, "--config")
    _require_safe(path)
    return parse_toml(SiteConfig, raw, str(path), EXAMPLE)


def _require_safe(path: Path) -> None:
    """Raise UsageError if others can change the file.

    A process of root follows only files that root alone, or the user who runs it, can change.
    """
    info = path.stat()
    if info.st_uid not in (0, os.geteuid()) or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"--config {path}: others than root can change it; run: chown root {path}; chmod go-w {path}"
        )
