"""Chooses the size of the arrays that are measured in both memories."""

from pagelens.errors import UsageError
from pagelens.measure.tiers.device import Facts
from pagelens.measure.tiers.measurement import ARRAYS, LINE_BYTES
from pagelens.units import format_binary_size, format_size, parse_size

_ARRAY = 1 << 30
_OVER_CACHE = 4  # STREAM's rule
_LEFT_FREE = 0.1  # of either memory


def parse_array(text: str | None, facts: Facts, host_bytes: int) -> int:
    """Return the bytes of an array, in whole lines; 1 GiB if `text` is None.

    Raises UsageError for less than STREAM's rule demands, or for more than there is room for.
    """
    asked = parse_size(text, "--array") if text is not None else _ARRAY
    least = max(_OVER_CACHE * facts.cache_bytes, 2 * LINE_BYTES)
    room = host_bytes if facts.simulator else min(host_bytes, facts.free_bytes)
    # The simulator's two memories are both the host's.
    most = int((1 - _LEFT_FREE) * room) // (ARRAYS * (2 if facts.simulator else 1))
    if not least <= asked <= most:
        raise UsageError(
            f"--array {text or format_binary_size(_ARRAY)}: each of {ARRAYS} arrays in either memory has "
            f"{format_size(least)} (four times the device's last cache) to {format_size(most)} (what is free)"
        )
    return asked // LINE_BYTES * LINE_BYTES
