"""Says why `pagelens io run` does not apply a way, and what measures it then.

docs/decisions/io-apply.md has the long answers.
"""

_KEPT_BACK = "data for which `write` has returned must not be lost, so only the program can keep them back"
_WHY_NOT = {
    "merge": _KEPT_BACK,
    "merge-direct": _KEPT_BACK,
    "writer-thread": _KEPT_BACK,
    "direct": "it leaves reads, and writes below 64 KiB, as they are",
    "sync-once": "a crash would lose more than the program allows",
    "willneed": "only the program knows what it will read",
    "queue-depth": "a call must not return before its request has ended",
    "threads": "only the program can divide its work among threads (`--threads` divides single writes)",
    "hdf5-chunks": "the program chooses the chunks when it makes a data set",
}


_REPLAYED = ("merge", "merge-direct", "queue-depth")


def why_not_applied(key: str) -> str:
    """Return the reason and what measures the way, or nothing for a way that is applied."""
    if key not in _WHY_NOT:
        return ""
    measured = (
        "`pagelens io replay` measures it" if key in _REPLAYED else "its gain is modelled, not measured"
    )
    return f"{_WHY_NOT[key]}; {measured}"
