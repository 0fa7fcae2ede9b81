"""A site's nodes: what is done to their memory between jobs, and how fit they are over their age."""

import lazy_loader

# `__init__.pyi` lists what the room exports; each name is imported when it is used first, as a Prolog must
# be short.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
