"""The part of `pagelens site` that runs around jobs.

It imports rooms only inside functions, because a Prolog must be short.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagelens.cli.options import Json

if TYPE_CHECKING:
    from pagelens.site import Record, SiteConfig

DEFAULT_CONFIG = Path("/etc/pagelens/site.toml")
Config = Annotated[Path, typer.Option("--config", metavar="FILE", help="The site's configuration.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the group."""
    app.command(epilog="  pagelens site check --config site.toml")(check)
    app.command(epilog="  pagelens site prolog  # in slurm.conf's Prolog")(prolog)
    app.command(epilog="  pagelens site epilog  # in slurm.conf's Epilog")(epilog)
    app.command(hidden=True)(plan)
    app.command(hidden=True)(clean)
    app.command(hidden=True)(sample)
    app.command(epilog="  pagelens site act --no-dry-run")(act)


def check(config: Config = DEFAULT_CONFIG) -> None:
    """Check the site's configuration, and say what it means on this node."""
    from pagelens.site import node_abilities, read_config

    found = read_config(config)
    typer.echo(f"{config}: valid")
    for line in node_abilities(found):
        typer.echo(f"  {line}")


def prolog(config: Config = DEFAULT_CONFIG) -> None:
    """Put this node's memory in order before a job; for slurmd, which starts it as root.

    It always exits with 0, and takes no longer than the configuration says.
    What does not fit in is left, and one line in the system's log says so.
    """
    from pagelens.site import run_prolog

    _never_failing(config, run_prolog)


def epilog(config: Config = DEFAULT_CONFIG) -> None:
    """Put back what the Prolog set up for a job; for slurmd, which starts it as root.

    It always exits with 0, and takes no longer than the configuration says.
    """
    from pagelens.site import run_epilog

    _never_failing(config, run_epilog)


def plan(
    file: Annotated[Path, typer.Argument(help="A plan that `pagelens place` wrote.")],
    program: Annotated[str, typer.Argument(help="The program of the task.")],
) -> None:
    """Write a plan as the preload library reads it, and print where; for the plugin in a task."""
    from pagelens.site import write_task_plan

    typer.echo(write_task_plan(file, program))


def sample(
    step: Annotated[str, typer.Argument(help="The job and the step, as 12.0.")],
    stepd: Annotated[int, typer.Argument(help="The process of the step's slurmstepd.")],
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Look at the memory of a step's processes until it ends; the plugin starts it with --pagelens-report."""
    from pagelens.site import read_config, watch_job

    watch_job(read_config(config), step, stepd)


def clean(config: Config = DEFAULT_CONFIG) -> None:
    """Clean this node thoroughly, in the job that `pagelens site act` queued for that."""
    from pagelens.site import run_clean

    _never_failing(config, run_clean)


def act(
    config: Config = DEFAULT_CONFIG,
    dry_run: Annotated[
        bool | None,
        typer.Option(
            "--dry-run/--no-dry-run", help="Only say what would be done (default: as act.dry_run says)."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Clean, then reboot, then drain slow nodes; by default only say what would be done.

    A systemd timer runs it on the controller. Each step needs new evidence from several jobs.
    It touches no node that is out for a reason that somebody else gave.
    """
    import json as writer

    from pagelens.cli.text.site_act import render_pass
    from pagelens.site import read_config, run_pass

    settings = read_config(config)
    found = run_pass(settings, config.absolute(), settings.act.dry_run if dry_run is None else dry_run)
    typer.echo(writer.dumps(found.to_json()) if json else render_pass(found), nl=json)


def _never_failing(path: Path, work: Callable[["SiteConfig", Mapping[str, str]], "Record"]) -> None:
    """Report any failure in one line, because a status other than 0 would drain the node."""
    from pagelens.site import read_config

    try:
        config = read_config(path)
        work(config, os.environ).tell(to_syslog=config.node.root == Path("/"))
    except Exception as error:
        typer.echo(f"pagelens site: {error}; the job goes on without", err=True)
