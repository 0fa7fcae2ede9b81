"""pagelens: how the frames under a program's pages decide its speed."""


def __getattr__(name: str) -> str:
    """`__version__`, looked up when it is asked for: that imports much, before Ctrl-C is seen to."""
    if name != "__version__":
        raise AttributeError(f"module 'pagelens' has no attribute {name!r}")
    from importlib.metadata import version

    return version("pagelens")
