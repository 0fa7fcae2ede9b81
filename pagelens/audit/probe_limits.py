"""Checks that a probe leaves enough memory to other programs."""

from pagelens.audit.model import GIGANTIC, LARGE, Audit
from pagelens.errors import UsageError
from pagelens.host.huge_page_pools import pool_folder
from pagelens.host.own_pages import PAGE_SIZES
from pagelens.units import format_binary_size

SMALLEST = LARGE
_MARGIN = 0.1  # the share of memory that is left to other programs


def require_room(audit: Audit, size: int, pages: str, available: int) -> None:
    """Raise UsageError, with the allowed range, if `size` is too small, too large or no multiple of a page.

    `available` is how many bytes new mappings may take, within the limits of the control groups.
    """
    page = max(PAGE_SIZES[pages], LARGE if pages == "thp" else 0)
    shown, least = format_binary_size(size, 6), format_binary_size(max(page, SMALLEST))
    if size < SMALLEST or size % page:
        raise UsageError(f"--probe {shown}: {least} or more, a multiple of {format_binary_size(page)}")
    if PAGE_SIZES[pages] >= LARGE:
        _require_pool(audit, size, PAGE_SIZES[pages])
        return
    total = audit.usage.total
    if total is None:
        raise UsageError(f"--probe {shown}: /proc/meminfo does not say what memory there is; do without it")
    most = available - int(_MARGIN * total)
    most = most // LARGE * LARGE
    if size > most:
        raise UsageError(
            f"--probe {shown}: from {least} to {format_binary_size(max(0, most), 6)} now, which is what is "
            "available less a tenth of memory for others; probe less, or later"
        )


def _require_pool(audit: Audit, size: int, page: int) -> None:
    pool = next((pool for pool in audit.huge_pages if pool.page_size == page), None)
    name = "1g" if page == GIGANTIC else "2m"
    if pool is None:
        raise UsageError(f"--page-size {name}: this kernel has no such pages; take 4k or thp")
    free = max(0, (pool.free or 0) - (pool.reserved or 0))
    if size > free * page:
        wanted = (pool.total or 0) - free + size // page
        raise UsageError(
            f"--page-size {name}: {free} of {size // page} pages are set aside and free; "
            f"echo {wanted} > {pool_folder(page)}/nr_hugepages, or probe less"
        )
