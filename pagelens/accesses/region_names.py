"""Names of marked regions, which are any bytes in a program, and text in reports and plans."""

import re

_ESCAPED = re.compile(r"\\x([89a-f][0-9a-f])")


def region_text(name: bytes) -> str:
    r"""Return the name as text: UTF-8, with each other byte as `\xNN`."""
    return name.decode(errors="backslashreplace")


def region_bytes(text: str) -> bytes:
    """Return the bytes that `region_text` was given."""
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text).encode(errors="surrogateescape")
