"""Which lines of a set of pages conflict in snoop filter and caches, by their physical addresses alone."""

from pagelens.address.pages import Pages, read_pages
from pagelens.conflicts.predict import Prediction, predict
from pagelens.conflicts.socket import Shared, Socket, socket_of
from pagelens.conflicts.swaps import Swap, find_swaps
from pagelens.host.process_pages import read_process

__all__ = [
    "Pages",
    "Prediction",
    "Shared",
    "Socket",
    "Swap",
    "find_swaps",
    "predict",
    "read_pages",
    "read_process",
    "socket_of",
]
