"""The section [pages] of a machine: the pages of the kernel that it boots."""

from typing import Annotated

from pydantic import AfterValidator, Field

from pagelens.address.units import FRAME_BYTES
from pagelens.values.quantities import Bytes, Sourced, Table

SIZES = (FRAME_BYTES, 16 << 10, 64 << 10)  # that kernels for Arm can be built with; x86-64 has the first


def _known(size: int) -> int:
    if size not in SIZES:
        raise ValueError(f"a kernel's pages are of 4, 16 or 64 KiB, not of {size:,} B")
    return size


class Pages(Table):
    """The pages of the kernel. A machine without this section boots a kernel with pages of 4 KiB."""

    size: Sourced[Annotated[Bytes, AfterValidator(_known)]] = Field(
        description="the smallest page that the kernel maps, clears and places: 4, 16 or 64 KiB"
    )
