"""Counts the lines of a set of pages that conflict in caches, from their physical addresses alone."""

from pagelens.address.pages import Pages, read_pages
from pagelens.conflicts.analysis import Conflicts, conflicts
from pagelens.conflicts.predict import MOST_WINDOWS, Count, Prediction, predict
from pagelens.conflicts.socket import Shared, Socket, socket_of
from pagelens.conflicts.swaps import Swap, find_swaps
from pagelens.host.process_pages import read_process

__all__ = [
    "MOST_WINDOWS",
    "Conflicts",
    "Count",
    "Pages",
    "Prediction",
    "Shared",
    "Socket",
    "Swap",
    "conflicts",
    "find_swaps",
    "predict",
    "read_pages",
    "read_process",
    "socket_of",
]
