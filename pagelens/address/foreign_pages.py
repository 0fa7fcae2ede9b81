"""Lists of pages that other tools write: drmemtrace's table of translations, and samples of perf."""

import re
from collections.abc import Iterator

from pagelens.errors import UsageError

_FIELD = re.compile(
    r"\s*(page_size|virtual_address|physical_address)\s*:\s*(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})\s*"
)
# perf script -F tid,event,addr,phys_addr; the last is there if perf recorded it.
_SAMPLE = re.compile(r"\s*\d{1,9}\s+\S.*?:\s+([0-9a-f]{1,16})(?:\s+([0-9a-f]{1,16}))?\s*")

Place = tuple[int, int]  # the number of a line, and the physical address that it states


def is_v2p(text: str) -> bool:
    """Return whether this is a v2p.textproto of drmemtrace."""
    return re.search(r"^\s*address_mapping\s*\{", text, re.MULTILINE) is not None


def v2p_pages(text: str, where: str) -> tuple[str | None, list[Place]]:
    """Return the stated size of a page and the pages in the order of their virtual addresses.

    Raises UsageError. DynamoRIO reads the same keys (clients/drcachesim/reader/v2p_reader.cpp).
    """
    size: str | None = None
    virtual: int | None = None
    found: dict[int, Place] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _FIELD.fullmatch(line.split("#", 1)[0])
        if match is None:
            if "_address" in line.split("#", 1)[0]:
                raise UsageError(f"{where}:{number}: {line.strip()!r:.60} is no `virtual_address: 0x1000`")
            continue
        value = int(match[2], 0)
        if match[1] == "page_size":
            size = f"{value}B"
        elif match[1] == "virtual_address":
            virtual = value
        elif virtual is None:
            raise UsageError(f"{where}:{number}: a physical_address has its virtual_address before it")
        else:
            found[virtual], virtual = (number, value), None
    return size, [place for _, place in sorted(found.items())]


def is_samples(text: str) -> bool:
    """Return whether the first line with a text is a sample of perf."""
    first = re.search(r"^[ \t]*[^#\s].*$", text, re.MULTILINE)
    return first is not None and _SAMPLE.fullmatch(first[0]) is not None


def sampled_pages(text: str, where: str, page_bytes: int) -> Iterator[Place]:
    """Yield each page that samples of perf lie in once, in the order of the samples. Raises UsageError."""
    seen = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None or match[2] is None:
            raise UsageError(
                f"{where}:{number}: {line.strip()!r:.60} has no physical address; record with --phys-data "
                "and write with perf script -F tid,event,addr,phys_addr"
            )
        address = int(match[2], 16) // page_bytes * page_bytes
        if int(match[2], 16) and address not in seen:  # 0: perf does not know it
            seen.add(address)
            yield number, address
