"""`pagelens audit`: a node's health for placement."""

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelens.audit.findings import find
from pagelens.audit.frame_map import read_frame_map
from pagelens.audit.model import Audit, Finding, Severity
from pagelens.audit.progress import progress
from pagelens.audit.read import read_audit
from pagelens.audit.terminal import render
from pagelens.errors import UsageError
from pagelens.machine import Machine, load_machine, parse_machine
from pagelens.machine.detect import System, detect

SCHEMA_VERSION = 1  # of --json; a version only adds
FOUND = 3  # exit status where findings are as bad as --fail-on says

EXAMPLES = """Examples:

  pagelens audit

  pagelens audit --json --fail-on warning || echo node needs care

Exit status: 0, or 3 where a finding is as bad as --fail-on says. docs/audit.md has the rest.
"""

app = typer.Typer(add_completion=False)


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
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not read the flags of every frame (root: up to 0.05 s a GiB).")
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
    model = load_machine(machine) if machine is not None else _detected(system)
    with progress("reading frame flags") as report:
        frames = None if quick else read_frame_map(system, report)
    found = read_audit(system, model, frames)
    findings = find(found)
    if as_json:
        typer.echo(json.dumps(to_json(found, findings), indent=1))
    else:
        typer.echo(render(found, findings), nl=False)
    raise typer.Exit(status(findings, fail_on))


def _detected(system: System) -> Machine:
    return parse_machine(detect(system).to_toml().encode(), "machine")


def to_json(found: Audit, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Everything by name; docs/audit.md says what."""
    head = {"schema": "pagelens audit", "version": SCHEMA_VERSION}
    return head | asdict(found) | {"findings": [asdict(finding) for finding in findings]}


def status(findings: tuple[Finding, ...], fail_on: FailOn) -> int:
    """The exit status."""
    failing = {
        FailOn.warning: (Severity.bad, Severity.warning),
        FailOn.bad: (Severity.bad,),
        FailOn.never: (),
    }
    return FOUND if any(finding.severity in failing[fail_on] for finding in findings) else 0
