"""Measures this machine's speeds as distributions over page maps: each trial has frames of its own."""

import lazy_loader

# `__init__.pyi` lists the names that the room exports. Each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
