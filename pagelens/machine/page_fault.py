"""The section [page_fault] of a machine: what the kernel's work for a page costs a program."""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pagelens.address.units import HUGE_PAGE_FRAMES
from pagelens.values.quantities import Seconds, Sourced, Table

Floats = NDArray[np.float64]

FAULT_COUNTS = ("small_faults", "large_faults")  # columns: pages of 4 KiB, and of 2 MiB


class PageFault(Table):
    """What a page costs, from its first touch until the program gives it back."""

    small: Sourced[Seconds] = Field(description="the core time of a page of 4 KiB, cleared on first touch")
    large: Sourced[Seconds] | None = Field(
        default=None,
        description="the same of 2 MiB; without a value, it counts as 512 pages of 4 KiB",
    )

    def seconds(self, small: Floats, large: Floats) -> Floats:
        """Return the core time of so many pages of 4 KiB and of 2 MiB."""
        of_large = HUGE_PAGE_FRAMES * self.small.value if self.large is None else self.large.value
        return small * self.small.value + large * of_large
