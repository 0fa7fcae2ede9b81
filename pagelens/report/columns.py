"""Finds the width of text."""

import shutil

WIDTH = 80  # columns of text that is not for a terminal
LEAST = 50  # columns of the narrowest terminal that text fits
MOST = 120  # longer lines are hard to read


def terminal_width() -> int:
    """Return the columns of the terminal, between LEAST and MOST, or WIDTH without a terminal.

    A terminal that does not report its width counts as none. COLUMNS in the environment comes first.
    """
    width = shutil.get_terminal_size((WIDTH, 0)).columns
    return max(LEAST, min(MOST, width))
