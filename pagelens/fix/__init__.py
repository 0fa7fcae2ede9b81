"""Applies remedies that change where frames lie, without a kernel module."""

import lazy_loader

# `__init__.pyi` lists the names that the room exports. Each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
