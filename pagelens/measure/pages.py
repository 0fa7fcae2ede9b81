"""The page sizes that a trial's memory can have, and the pools that these pages come from."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pagelens import _probes
from pagelens.errors import Failure, UsageError
from pagelens.units import format_size

_POOLS = Path("/sys/kernel/mm/hugepages")


@dataclass(frozen=True)
class PageSize:
    """One way to map memory."""

    name: str
    title: str
    kind: _probes.Pages
    pool: bool = False  # pages of the hugetlb pool

    @property
    def bytes(self) -> int:
        """The bytes of a page, and of a large one if pages are transparent."""
        return _probes.unit_bytes(self.kind)

    @property
    def free_bytes(self) -> int:
        """The free bytes of the pool."""
        return _probes.free_in_pool(self.kind) * self.bytes if self.pool else 0

    @property
    def exhausted(self) -> bool:
        """Whether its pages come from a pool that has no free ones."""
        return self.pool and self.free_bytes == 0

    def rounded(self, size: int) -> int:
        """Return the least whole number of pages that holds `size` bytes, in bytes."""
        return -(-size // self.bytes) * self.bytes

    def map(self, size: int, cpus: Sequence[int], arrays: Sequence[int]) -> _probes.Memory:
        """Return fresh memory of at least `size` bytes, all of it mapped. Raises Failure if there is none."""
        with _failing(self.name):
            return _probes.Memory(self.rounded(size), self.kind, list(cpus), list(arrays))

    def ballast(self, size: int, cpus: Sequence[int], kept: float, seed: int) -> _probes.Ballast:
        """Put free frames into another order, and hold some of them (probes/ballast.hpp)."""
        with _failing(self.name):
            return _probes.Ballast(self.rounded(size), self.kind, list(cpus), kept, seed)


@contextmanager
def _failing(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(f"--page-size {name}: {error.strerror or error}") from None


PAGE_SIZES = {
    page.name: page
    for page in (
        PageSize("4k", "4 KiB pages", _probes.Pages.small),
        PageSize("thp", "transparent 2 MiB", _probes.Pages.transparent),
        PageSize("2m", "2 MiB pages", _probes.Pages.large, pool=True),
        PageSize("1g", "1 GiB pages", _probes.Pages.huge, pool=True),
    )
}


def parse_page_sizes(text: str) -> list[PageSize]:
    """Return the page sizes of "4k,2m". Raises UsageError."""
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in PAGE_SIZES:
            raise UsageError(f"--page-size {name!r}: some of {', '.join(PAGE_SIZES)}, with commas between")
    return [PAGE_SIZES[name] for name in dict.fromkeys(names)]


@contextmanager
def reserved(pages: Sequence[PageSize], least: int, wanted: int, pools: Path = _POOLS) -> Iterator[None]:
    """Make sure that each pool has free pages for `wanted` bytes, and give added pages back at the end.

    Raises Failure if there are not even enough for `least` bytes, and none can be added.
    """
    grown: list[tuple[Path, int]] = []  # files, and pages that were asked for beyond what was there
    try:
        for page in pages:
            if page.pool:
                folder = pools / f"hugepages-{page.bytes >> 10}kB"
                pages_of = [page.rounded(size) // page.bytes for size in (least, wanted)]
                _grow(page, folder, pages_of[0], pages_of[1], grown)
        yield
    finally:
        for file, before in grown:  # others may have changed the pool meanwhile: what was added goes
            with suppress(OSError, ValueError):
                file.write_text(f"{max(0, int(file.read_text()) - before)}\n")


def _grow(page: PageSize, folder: Path, least: int, wanted: int, grown: list[tuple[Path, int]]) -> None:
    """Ask for the pages that are missing, and note how many came."""
    file = folder / "nr_hugepages"
    try:
        total, free = int(file.read_text()), int((folder / "free_hugepages").read_text())
    except (OSError, ValueError):
        raise UsageError(f"--page-size {page.name}: this kernel has no such pages; leave it out") from None
    if free >= wanted:
        return
    more = total + wanted - free
    grown.append((file, 0))
    try:
        file.write_text(f"{more}\n")
        grown[-1] = (file, max(0, int(file.read_text()) - total))
        free = int((folder / "free_hugepages").read_text())
    except OSError:
        if free < least:
            raise Failure(
                f"--page-size {page.name}: {free} of {wanted} pages are free; as root: echo {more} > {file}"
            ) from None
    if free < least:
        raise Failure(
            f"--page-size {page.name}: {least} pages are needed ({format_size(least * page.bytes)}) and "
            f"the kernel finds only {free}; measure less, or reserve them at boot"
        )
