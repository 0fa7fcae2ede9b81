"""Reads lists of pages by physical address from a file (docs/conflicts.md describes the format)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from pagelens.address.foreign_pages import Place, is_samples, is_v2p, sampled_pages, v2p_pages
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.units import format_binary_size, parse_size
from pagelens.values.quantities import Table

LARGEST_PAGE = 1 << 30
LARGEST_FILE = 64 << 20  # bytes
MOST_PAGES = 1 << 20
HIGHEST_ADDRESS = 1 << 52  # of x86-64
MOST_CORES = 4096

_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_NUMBER = re.compile(r"[0-9]{1,16}")


@dataclass(frozen=True)
class Pages:
    """Pages in the order in which data fill them. The arrays have one entry for each page."""

    addresses: NDArray[np.uint64]  # physical, of the first byte
    sizes: NDArray[np.int64]  # bytes
    cores: NDArray[np.int64] | None = None  # core that holds it; None: equal parts of one buffer
    virtual: NDArray[np.uint64] | None = None  # addresses
    notes: tuple[str, ...] = ()

    def require_below(self, reach: int, what: str) -> None:
        """Raise UsageError if a page's slices are not known."""
        ends = self.addresses + self.sizes.astype(np.uint64)
        if len(ends) and int(ends.max()) > reach:
            beyond = int(self.addresses[np.argmax(ends)])
            raise UsageError(
                f"{what}: physical address {beyond:#x}: the slices are known below {reach:#x}; "
                "leave such pages out, or take another --machine"
            )


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a file states of one page."""

    number: int  # its line, or its place in the JSON
    address: int
    core: int | None


class _JsonPage(Table):
    address: str | None = Field(default=None, max_length=20)
    frame: int | None = Field(default=None, ge=0)
    core: int | None = Field(default=None, ge=0)


class _JsonFile(Table):
    page_size: str | None = Field(default=None, max_length=40)
    pages: list[_JsonPage] = Field(max_length=MOST_PAGES)


def parse_page_size(text: str, name: str) -> int:
    """Return the bytes of a page. Raises UsageError."""
    size = parse_size(text, name)
    if size < FRAME_BYTES or size > LARGEST_PAGE or size & (size - 1):
        raise UsageError(f"{name} {text}: a power of two from 4KiB to 1GiB, such as 2MiB")
    return size


def read_pages(path: Path, page_size: str | None, option: str) -> Pages:
    """Return the pages that a file lists. `option` is the option that named it. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{option}: cannot read {path} ({error.strerror}); name a readable file") from None
    if len(raw) > LARGEST_FILE:
        size = format_binary_size(LARGEST_FILE)
        raise UsageError(f"{option}: {path} has more than {size}; list a process's or a node's pages")
    return parse_pages(raw, str(path), page_size)


def parse_pages(raw: bytes, where: str, page_size: str | None = None) -> Pages:
    """Return the pages that a file's bytes list. Raises UsageError.

    They have 2 MiB unless the file or `page_size` says otherwise.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(f"{where}:{line}: not text; list one physical address a line, or JSON") from None
    stated: str | None = None
    entries: Iterable[_Entry] = _text(text, where)
    before = ":"
    if is_v2p(text):
        stated, places = v2p_pages(text, where)
        entries = _placed(places, where)
    elif is_samples(text):
        size = parse_page_size(page_size or "2MiB", "--page-size")
        entries = _placed(sampled_pages(text, where, size), where)
    elif text.lstrip()[:1] in ("{", "["):
        stated, entries = _json(text, where)
        before = ": pages."
    option = "--page-size" if page_size else f"{where}: page_size"
    size = parse_page_size(page_size or stated or "2MiB", option)
    return _pages(entries, size, where, before)


def _placed(places: Iterable[Place], where: str) -> Iterator[_Entry]:
    for number, address in places:
        yield _Entry(number, _below(address, f"{where}:{number}"), None)


def _pages(entries: Iterable[_Entry], size: int, where: str, before: str) -> Pages:
    """Return the pages of the entries. `where`, `before` and an entry's number name it in errors."""
    seen: dict[int, int] = {}
    cores: list[int] = []
    for entry in entries:
        here = f"{where}{before}{entry.number}"
        if entry.address % size:
            raise UsageError(
                f"{here}: {entry.address:#x} is no multiple of the page, {format_binary_size(size)}; "
                "give the page's first address, or --page-size"
            )
        if entry.address in seen:
            first = f"{where}{before}{seen[entry.address]}"
            raise UsageError(f"{here}: page {entry.address:#x} is in {first}, too; list it once")
        if (entry.core is not None) != (len(cores) > 0) and seen:
            raise UsageError(f"{here}: a core stands beside some pages only; give one to all or to none")
        if len(seen) == MOST_PAGES:
            raise UsageError(f"{here}: more than {MOST_PAGES} pages; list those that are used together")
        seen[entry.address] = entry.number
        if entry.core is not None:
            cores.append(entry.core)
    if not seen:
        raise UsageError(f"{where}: no page in it; list one physical address a line, such as 0x1c0000000")
    addresses = np.fromiter(seen, dtype=np.uint64, count=len(seen))
    return Pages(
        addresses,
        np.full(len(seen), size, dtype=np.int64),
        np.array(cores, dtype=np.int64) if cores else None,
    )


def _text(text: str, where: str) -> Iterator[_Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split("#", 1)[0].replace(",", " ").split()
        if not words:
            continue
        here = f"{where}:{number}"
        if len(words) > 2:
            raise UsageError(f"{here}: {len(words)} columns; write an address and, if you like, a core")
        core = _core(words[1], here) if len(words) == 2 else None
        yield _Entry(number, _address(words[0], here), core)


def _address(word: str, here: str) -> int:
    if _ADDRESS.fullmatch(word):
        return _below(int(word, 16), here)
    if _NUMBER.fullmatch(word):
        return _below(int(word) * FRAME_BYTES, here)
    raise UsageError(
        f"{here}: {word!r:.40} is neither a physical address, such as 0x1c0000000, nor the number of a "
        "4 KiB frame, such as 1835008"
    )


def _below(address: int, here: str) -> int:
    if address >= HIGHEST_ADDRESS:
        raise UsageError(f"{here}: {address:#x}: physical addresses lie below {HIGHEST_ADDRESS:#x}")
    return address


def _core(word: str, here: str) -> int:
    if not _NUMBER.fullmatch(word) or int(word) >= MOST_CORES:
        raise UsageError(f"{here}: {word!r:.40} is no core; write a number from 0 to {MOST_CORES - 1}")
    return int(word)


def _json(text: str, where: str) -> tuple[str | None, list[_Entry]]:
    try:
        file = _JsonFile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f".{part}" for part in first["loc"]).lstrip(".") or "the file"
        message = "".join(c if c.isprintable() else " " for c in first["msg"])
        raise UsageError(
            f'{where}: {place:.80}: {message:.200}; write {{"pages": [{{"address": "0x1c0000000"}}, ...]}}'
        ) from None
    entries = []
    for number, page in enumerate(file.pages):
        here = f"{where}: pages.{number}"
        if (page.address is None) == (page.frame is None):
            raise UsageError(f"{here}: state either address or frame")
        if page.address is not None and not _ADDRESS.fullmatch(page.address):
            raise UsageError(f'{here}: {page.address!r} is no address; write one such as "0x1c0000000"')
        address = _below(
            (page.frame or 0) * FRAME_BYTES if page.address is None else int(page.address, 16), here
        )
        entries.append(_Entry(number, address, None if page.core is None else _core(str(page.core), here)))
    return file.page_size, entries
