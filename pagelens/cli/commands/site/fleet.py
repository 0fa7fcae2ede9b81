"""The part of `pagelens site` that watches nodes over their age. Import rooms inside functions only."""

import typer


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the group."""
