"""Physical addresses: their units, and the hashes that select slices, channels and banks."""

from pagelens.address.units import FRAME_BYTES

__all__ = ["FRAME_BYTES"]
