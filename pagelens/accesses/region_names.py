"""Names of marked regions: any bytes in a program, text in reports and plans."""

import re

_ESCAPED = re.compile(r"\\x([89a-f][0-9a-f])")


def region_text(name: bytes) -> str:
    """UTF-8; of other bytes each is written as `\\xNN`."""
    return name.decode(errors="backslashreplace")


def region_bytes(text: str) -> bytes:
    """What `region_text` was given."""
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text).encode(errors="surrogateescape")
