"""Keeps a site's nodes fit: works on their memory between jobs, and watches them over their age."""

import lazy_loader

# `__init__.pyi` lists the names that the room exports. Each is imported when it is first used, because a
# Prolog must be short.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
