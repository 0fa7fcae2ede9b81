"""The section [page_fault] of a machine: what the kernel's work for a page costs a program."""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pagelens.address.units import HUGE_PAGE_FRAMES
from pagelens.values.quantities import Seconds, Sourced, Table

Floats = NDArray[np.float64]

FAULT_COUNTS = ("small_faults", "large_faults")  # columns: pages of 4 KiB, and of 2 MiB
# Columns: pages of zeros, and blocks of 64 KiB of files, that are only read. No placement changes them.
READ_FAULT_COUNTS = ("zero_faults", "file_faults")


class PageFault(Table):
    """What a page costs, from its first touch until the program gives it back."""

    small: Sourced[Seconds] = Field(description="the core time of a page of 4 KiB, cleared on first touch")
    large: Sourced[Seconds] | None = Field(
        default=None,
        description="the same of 2 MiB; without a value, it counts as 512 pages of 4 KiB",
    )

    zero: Sourced[Seconds] | None = Field(
        default=None,
        description="the core time of a page of 4 KiB that is read before anything was written to it; "
        "without a value, it costs nothing",
    )
    file: Sourced[Seconds] | None = Field(
        default=None,
        description="the core time of the pages of a file in a block of 64 KiB, which one fault maps; "
        "without a value, they cost nothing",
    )

    def seconds(
        self, small: Floats, large: Floats, zero: Floats | float = 0.0, file: Floats | float = 0.0
    ) -> Floats:
        """Return the core time of so many pages of 4 KiB and of 2 MiB, and of those that are only read."""
        of_large = HUGE_PAGE_FRAMES * self.small.value if self.large is None else self.large.value
        of_zero, of_file = (price.value if price is not None else 0.0 for price in (self.zero, self.file))
        return small * self.small.value + large * of_large + zero * of_zero + file * of_file
