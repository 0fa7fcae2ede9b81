"""How wide text is."""

import shutil

WIDTH = 80  # columns of text that is not for a terminal
LEAST = 50  # columns of the narrowest terminal that text fits
MOST = 120  # longer lines are hard to read


def terminal_width() -> int:
    """Columns of the terminal, between LEAST and MOST; WIDTH where there is none.

    A terminal that says nothing of its width counts as none. COLUMNS in the environment comes first.
    """
    width = shutil.get_terminal_size((WIDTH, 0)).columns
    return max(LEAST, min(MOST, width))
