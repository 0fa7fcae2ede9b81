"""A site's nodes: what is done to their memory between jobs, and how fit they are over their age.

A Prolog must be short, so each name below is imported when it is used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagelens.site.config import SiteConfig, read_config

_MODULES = {"config": ("SiteConfig", "read_config")}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["SiteConfig", "read_config"]


def __getattr__(name: str) -> Any:
    """Imports what `name` stands for."""
    if name in _HOME:
        return getattr(import_module(f"pagelens.site.{_HOME[name]}"), name)
    raise AttributeError(f"module 'pagelens.site' has no attribute {name!r}")
