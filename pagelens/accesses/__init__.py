"""Sources of accesses: the tracer, trace files and declared loops. Each of them yields a `Workload`."""

import lazy_loader

# `__init__.pyi` lists the names that the room exports. Each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
