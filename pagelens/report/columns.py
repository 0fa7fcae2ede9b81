"""How wide text is."""

WIDTH = 80  # columns of a terminal that every text fits
