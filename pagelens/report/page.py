"""Makes HTML pages that need neither a network nor scripts, in one style."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


def page_template(package: str, name: str, filters: Mapping[str, Callable[..., Any]]) -> Template:
    """Return a template of that package, with its filters. `style` in it is the style of all pages."""
    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    environment.globals["style"] = Markup(files("pagelens.report").joinpath("page.css").read_text())
    return environment.get_template(name)
