"""The progress bar of the commands."""

from pagelens.progress import Bar, progress_bar

__all__ = ["Bar", "progress_bar"]
