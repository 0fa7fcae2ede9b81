"""The part of `pagelens site` in the way of jobs. Import rooms inside functions only: a Prolog is short."""

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path, typer.Option("--config", metavar="FILE", help="The site's configuration.")]
DEFAULT_CONFIG = Path("/etc/pagelens/site.toml")


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the group."""
    app.command(epilog="  pagelens site check --config site.toml")(check)


def check(config: Config = DEFAULT_CONFIG) -> None:
    """Check the site's configuration, and say what it means on this node."""
    from pagelens.site.config import read_config

    read_config(config)
    typer.echo(f"{config}: valid")
