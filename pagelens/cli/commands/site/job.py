"""The part of `pagelens site` in the way of jobs. Import rooms inside functions only: a Prolog is short."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pagelens.site import Record, SiteConfig

DEFAULT_CONFIG = Path("/etc/pagelens/site.toml")
Config = Annotated[Path, typer.Option("--config", metavar="FILE", help="The site's configuration.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the group."""
    app.command(epilog="  pagelens site check --config site.toml")(check)
    app.command(epilog="  pagelens site prolog  # in slurm.conf's Prolog")(prolog)
    app.command(epilog="  pagelens site epilog  # in slurm.conf's Epilog")(epilog)
    app.command(hidden=True)(plan)


def check(config: Config = DEFAULT_CONFIG) -> None:
    """Check the site's configuration, and say what it means on this node."""
    from pagelens.site.abilities import node_abilities
    from pagelens.site.config import read_config

    found = read_config(config)
    typer.echo(f"{config}: valid")
    for line in node_abilities(found):
        typer.echo(f"  {line}")


def prolog(config: Config = DEFAULT_CONFIG) -> None:
    """Put this node's memory in order before a job; for slurmd, which starts it as root.

    It always exits with 0, and takes no longer than the configuration says.
    What does not fit in is left, and one line in the system's log says so.
    """
    from pagelens.site.prolog import run_prolog

    _never_failing(config, run_prolog)


def epilog(config: Config = DEFAULT_CONFIG) -> None:
    """Put back what the Prolog set up for a job; for slurmd, which starts it as root.

    It always exits with 0, and takes no longer than the configuration says.
    """
    from pagelens.site.epilog import run_epilog

    _never_failing(config, run_epilog)


def plan(
    file: Annotated[Path, typer.Argument(help="A plan that `pagelens place` wrote.")],
    program: Annotated[str, typer.Argument(help="The program of the task.")],
) -> None:
    """Write a plan as the preload library reads it, and print where; for the plugin in a task."""
    from pagelens.site.task_plan import task_plan

    typer.echo(task_plan(file, program))


def _never_failing(path: Path, work: Callable[["SiteConfig", Mapping[str, str]], "Record"]) -> None:
    """Any failure is one line: a status other than 0 would drain the node."""
    from pagelens.site.config import read_config

    try:
        config = read_config(path)
        work(config, os.environ).tell(to_syslog=config.node.root == Path("/"))
    except Exception as error:
        typer.echo(f"pagelens site: {error}; the job goes on without", err=True)
