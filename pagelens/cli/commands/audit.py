"""`pagelens audit`: Judge how fit this node's memory is for the next job, and show what would improve it."""

import json
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pagelens.audit import Finding, Severity
from pagelens.audit import audit as audit_node
from pagelens.cli.options import Json
from pagelens.cli.text.audit import render
from pagelens.errors import Interrupted, UsageError
from pagelens.progress import Bar, progress_bar

PATIENCE_S = 2.0  # before a step shows its progress
FOUND = 3  # exit status if a finding is as bad as --fail-on says
_RARE = "Rarely needed"

EXAMPLES = """Examples:

  pagelens audit

  sudo pagelens audit --probe 8GiB

  pagelens audit --files /data/*.gguf

  pagelens audit --json --fail-on warning || echo node needs care

The exit status is 3 if a finding is as bad as --fail-on says, and 0 otherwise. See docs/audit.md.
"""

app = typer.Typer(add_completion=False)


class PageSize(StrEnum):
    """The keys of own_pages.PAGE_SIZES."""

    small = "4k"
    transparent = "thp"
    large = "2m"
    gigantic = "1g"


class FailOn(StrEnum):
    """The least severity that makes the exit status 3."""

    warning = "warning"
    bad = "bad"
    never = "never"


@app.command(epilog=EXAMPLES)
def audit(
    more_files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="More paths for --files.", show_default=False),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Allocate this much memory, e.g. 8GiB, and judge its frames."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Say on which NUMA nodes these files' cached pages lie."),
    ] = None,
    page_size: Annotated[PageSize, typer.Option("--page-size", help="Page size of the probe.")] = (
        PageSize.small
    ),
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit with status 3 if a finding is this severe.")
    ] = FailOn.bad,
    as_json: Json = False,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Use this machine instead of the detected one.", rich_help_panel=_RARE
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Do not read the flags of every frame, which takes 0.04 s/GiB.",
            rich_help_panel=_RARE,
        ),
    ] = False,
    root: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Read a captured tree of /proc and /sys.", rich_help_panel=_RARE),
    ] = Path("/"),
) -> None:
    """Judge how fit this node's memory is for the next job, and show what would improve it.

    It reads memory tiers and caches, huge pages, free memory and kernel settings.
    It changes nothing. Run it as root to see page block types and frame flags as well.
    """
    if more_files and not files:
        raise UsageError(f"audit: {more_files[0]}: unexpected; to look at cached files, use --files PATH...")
    try:
        found = audit_node(
            root,
            machine,
            probe=probe,
            page_size=page_size,
            frame_flags=not quick,
            files=[*(files or ()), *(more_files or ())],
            progress=_progress,
        )
    except KeyboardInterrupt:
        raise Interrupted("audit: interrupted; memory that it took is given back") from None
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1))
    else:
        typer.echo(render(found.audit, found.findings, found.probe), nl=False)
    raise typer.Exit(status(found.findings, fail_on))


def _progress(step: str) -> AbstractContextManager[Bar]:
    return progress_bar(what=step, percent=True, patience_s=PATIENCE_S)


def status(findings: tuple[Finding, ...], fail_on: FailOn) -> int:
    """Return the exit status."""
    failing = {
        FailOn.warning: (Severity.bad, Severity.warning),
        FailOn.bad: (Severity.bad,),
        FailOn.never: (),
    }
    return FOUND if any(finding.severity in failing[fail_on] for finding in findings) else 0
