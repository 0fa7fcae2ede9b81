"""Random updates of a large table (examples/gups.cpp is their small twin).

They are RandomAccess of HPC Challenge, and GUPS with a hot part as HeMem (SOSP'21) and Johnny Cache (OSDI'23)
use it. A repeat updates as many words as the table has lines.
"""

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, Walk, write

HOT_BYTES, HOT_UPDATES = 0.1, 0.9  # the hot part, and its share of the updates
_INSTRUCTIONS = 18.0  # an update, as examples/gups.cpp executes it


def random_access(size_bytes: int, threads: int, repeats: int) -> Loops:
    """Spread the updates evenly over the table."""
    return _updates({"table": (size_bytes, 1.0)}, size_bytes, repeats)


def gups_hot(size_bytes: int, threads: int, repeats: int) -> Loops:
    """Send nine of ten updates to a tenth of the table, which lies at its beginning."""
    hot = HOT_BYTES * size_bytes
    parts = {"hot": (hot, HOT_UPDATES), "cold": (size_bytes - hot, 1 - HOT_UPDATES)}
    return _updates(parts, size_bytes, repeats)


def gups_regions(size_bytes: int, threads: int, repeats: int) -> Loops:
    """Give each thread a region of the table, and send nine of ten of its updates to its beginning."""
    hot, cold = HOT_BYTES * size_bytes / threads, (1 - HOT_BYTES) * size_bytes / threads
    parts = {
        f"{name} {thread}": (bytes_, updates / threads)
        for thread in range(threads)
        for name, bytes_, updates in (("hot", hot, HOT_UPDATES), ("cold", cold, 1 - HOT_UPDATES))
    }
    return _updates(parts, size_bytes, repeats)


def _updates(parts: dict[str, tuple[float, float]], size_bytes: float, repeats: int) -> Loops:
    """Return the loops for `parts`, which gives the bytes and the share of updates by name."""
    streams = tuple(
        Stream(name, Kind.write, bytes=share * size_bytes, walk=Walk.random)
        for name, (_, share) in parts.items()
    )
    # Instructions count per line of the longest walk.
    instructions = _INSTRUCTIONS / max(share for _, share in parts.values())
    return Loops(
        tuple(Array(name, bytes_) for name, (bytes_, _) in parts.items()),
        (
            # The table is zeroed when it is allocated, and then filled.
            *(
                Sweep("initialise", 6.0, write(name), first_touch=turn == 0)
                for turn in range(2)
                for name in parts
            ),
            Sweep("warm-up", instructions, streams),
            Sweep("update", instructions, streams),
        ),
        {"update": repeats},
    )
