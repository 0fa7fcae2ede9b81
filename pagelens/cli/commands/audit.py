"""`pagelens audit`: Say how fit a node's memory is for the next job's placement, and what would make it fitter."""

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelens.audit.findings import find
from pagelens.audit.model import Audit, Finding, Probe, Severity
from pagelens.audit.probe import Ground, Job, judge, take
from pagelens.audit.probe_limits import require_room
from pagelens.audit.read import read_audit
from pagelens.cli.audit_progress import progress
from pagelens.cli.text.audit import render
from pagelens.errors import Interrupted, UsageError
from pagelens.host.frame_map import FrameMap, read_frame_map
from pagelens.machine import Machine, load_machine, parse_machine
from pagelens.machine.detect import System, detect
from pagelens.units import format_binary_size, parse_size

SCHEMA_VERSION = 1  # of --json; a version only adds
FOUND = 3  # exit status where findings are as bad as --fail-on says

EXAMPLES = """Examples:

  pagelens audit

  sudo pagelens audit --probe 8GiB

  pagelens audit --json --fail-on warning || echo node needs care

Exit status: 0, or 3 where a finding is as bad as --fail-on says. docs/audit.md has the rest.
"""

app = typer.Typer(add_completion=False)


class PageSize(StrEnum):
    """Of own_pages.PAGE_SIZES."""

    small = "4k"
    transparent = "thp"
    large = "2m"
    gigantic = "1g"


class FailOn(StrEnum):
    """From which severity on."""

    warning = "warning"
    bad = "bad"
    never = "never"


@app.command(epilog=EXAMPLES)
def audit(
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Take the node for this one: a name of pagelens machines, or a file."
        ),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Take so much memory, as 8GiB, and judge the frames under it."),
    ] = None,
    page_size: Annotated[
        PageSize, typer.Option("--page-size", help="Of the probe: 4k, transparent, or from the pools.")
    ] = PageSize.small,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not read the flags of every frame (root: 0.04 s a GiB).")
    ] = False,
    root: Annotated[
        Path, typer.Option(metavar="DIR", help="Read a captured tree of /proc and /sys instead.")
    ] = Path("/"),
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit status 3 for findings as bad as this.")
    ] = FailOn.bad,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Say how fit a node's memory is for the next job's placement, and what would make it fitter.

    Read from /proc, /sys and hwloc: tiers and caches before memory, huge pages
    and how many more could be had, free memory by order, the kernel's settings.
    Root is shown page block types and frame flags, too.
    """
    if not root.is_dir():
        raise UsageError(f"--root {root}: no such folder; name one that holds proc/ and sys/")
    system = System(root)
    size = None if probe is None else parse_size(probe, "--probe")
    if size is not None and system.captured:
        raise UsageError(f"--probe {probe}: a probe takes memory of this machine; leave out --root")
    if not any((root / name).is_dir() for name in ("proc", "sys")):  # nothing would be found wrong
        raise UsageError(f"--root {root}: holds neither proc/ nor sys/; name a tree that does")
    model = load_machine(machine) if machine is not None else _detected(system)
    model.require_linux_pages("audit")
    try:
        with progress("reading frame flags") as report:
            free = None if quick else read_frame_map(system, report)
        found = read_audit(system, model, free)
        probed = None if size is None else _probe(Job(size, page_size), found, model, system, free)
    except KeyboardInterrupt:
        raise Interrupted("audit: interrupted; memory that it took is given back") from None
    findings = find(found, probed)
    if as_json:
        typer.echo(json.dumps(to_json(found, findings, probed), indent=1))
    else:
        typer.echo(render(found, findings, probed), nl=False)
    raise typer.Exit(status(findings, fail_on))


def _probe(job: Job, found: Audit, model: Machine, system: System, free: FrameMap | None) -> Probe:
    """Who may not see frames takes no memory for nothing. Raises UsageError or Failure."""
    from pagelens import _probes  # loads OpenMP: only who takes memory waits

    require_room(found, job.size, job.pages, _probes.available_bytes())
    frames = None
    if found.rights.frames:
        with progress(f"taking {format_binary_size(job.size)}") as report:
            frames = take(job, report)
    ground = Ground.of(found, model, not may_be(model, system), system, free)
    with progress("trying remedies") as report:
        return judge(job, frames, ground, report)


def _detected(system: System) -> Machine:
    return parse_machine(detect(system).to_toml().encode(), "machine")


def may_be(machine: Machine, system: System) -> bool:
    """Whether a machine file may be this system's: written by detection, or of the same kind of processor."""
    here = detect(system)
    return machine.name == here.name or (here.base is not None and here.base in machine.base)


def to_json(found: Audit, findings: tuple[Finding, ...], probe: Probe | None = None) -> dict[str, Any]:
    """Everything by name; docs/audit.md says what."""
    head = {"schema": "pagelens audit", "version": SCHEMA_VERSION}
    tail = {"probe": None if probe is None else asdict(probe), "findings": [asdict(one) for one in findings]}
    return head | asdict(found) | tail


def status(findings: tuple[Finding, ...], fail_on: FailOn) -> int:
    """The exit status."""
    failing = {
        FailOn.warning: (Severity.bad, Severity.warning),
        FailOn.bad: (Severity.bad,),
        FailOn.never: (),
    }
    return FOUND if any(finding.severity in failing[fail_on] for finding in findings) else 0
