"""pagelens: how the frames under a program's pages decide its speed."""

from importlib.metadata import version

__version__ = version("pagelens")
