"""Studies: simulations at every point of a grid or a sample of inputs, and what decides their answer."""

import lazy_loader

# `__init__.pyi` lists what the room exports; each name is imported when it is used first.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
