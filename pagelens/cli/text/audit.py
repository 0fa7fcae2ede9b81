"""Prints an audit in at most 80 columns: the readings first, the findings last."""

import textwrap
from collections.abc import Iterator, Sequence

from pagelens.audit import Audit, Finding, Probe, Severity, Zone, free_frames, suitable_blocks
from pagelens.cli.text.audit_probe import probe_lines
from pagelens.report import terminal_width
from pagelens.units import format_binary_size, format_count, format_rate, format_share

_UNKNOWN = "unknown"
_LABEL = 17


def render(audit: Audit, findings: Sequence[Finding], probe: Probe | None = None) -> str:
    """Return the audit as plain text."""
    sections = [
        _title(audit),
        _memory(audit),
        _free(audit),
        _huge_pages(audit),
        _kernel(audit),
        _files(audit),
    ]
    if probe is not None:
        sections.append(probe_lines(probe))
    text = "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines)
    return f"{text}\n\n" + "\n".join(_findings(findings)) + "\n"


def _title(a: Audit) -> Iterator[str]:
    kernel = f"Linux {a.kernel.version}" if a.kernel.version else "kernel unknown"
    up = "" if a.kernel.uptime_s is None else f", up {_duration(a.kernel.uptime_s)}"
    yield from textwrap.wrap(f"{a.machine}; {kernel}{up}", terminal_width())


def _memory(a: Audit) -> Iterator[str]:
    yield "Memory"
    yield (
        f"  {'node':>4} {'processors':>10} {'size':>9} {'free':>9} {'bandwidth':>10} {'latency':>8}  "
        "cache before it"
    )
    for node in a.nodes:
        cache = "none shown"
        if node.side_cache is not None:
            direct = {True: ", direct-mapped", False: ", associative", None: ""}[
                node.side_cache.direct_mapped
            ]
            cache = f"{_size(node.side_cache.size)}{direct}"
        elif a.cache is not None and a.cache.assumed:
            cache = f"{_size(a.cache.size)}, assumed"
        kind = node.kind or {True: "faster", False: "slower", None: ""}[node.faster]
        processors = "none" if node.processors == 0 else _number(node.processors)
        rate = _UNKNOWN if node.bandwidth is None else format_rate(node.bandwidth)
        latency = _UNKNOWN if node.latency_ns is None else f"{node.latency_ns} ns"
        tail = f"{cache}; {kind}" if kind else cache
        yield (
            f"  {node.number:>4} {processors:>10} {_size(node.size):>9} {_size(node.free):>9} "
            f"{rate:>10} {latency:>8}  {tail}"
        )
    usage = a.usage
    swap = _UNKNOWN if a.kernel.swap is None else "none" if not a.kernel.swap else (
        f"{_size(a.kernel.swap_used)} of {_size(a.kernel.swap)}"
    )  # fmt: skip
    yield from _setting(
        "in use",
        f"page cache {_size(usage.page_cache)}; drop_caches would free {_size(usage.droppable)}; "
        f"dirty {_size(usage.dirty)}; swap {swap}",
    )


def _files(a: Audit) -> Iterator[str]:
    if not a.files:
        return
    yield "Files in the page cache, by NUMA node"
    for file in a.files:
        placed = sum(file.by_node.values())
        nodes = ", ".join(f"{node}: {format_share(size / placed)}" for node, size in file.by_node.items())
        hidden = f"; {file.hidden} files are shown only to their owner or root" if file.hidden else ""
        text = f"{_size(file.cached)} of {_size(file.size)} cached{'; ' if nodes else ''}{nodes}{hidden}"
        yield from textwrap.wrap(f"  {file.path}: {text}", terminal_width(), subsequent_indent="    ")


def _free(a: Audit) -> Iterator[str]:
    if not a.zones:
        yield "Free memory by order: unknown"
        return
    yield "Free memory, by the size of its blocks; the kernel's indices for a 2 MiB page"
    yield (
        f"  {'node zone':<11} {'free':>9} {'<64 KiB':>8} {'<2 MiB':>7} {'2 MiB':>6} {'4 MiB':>6} "
        f"{'unusable':>9} {'fragm.':>7} {'pinned':>7}"
    )
    for zone in a.zones:
        if zone.free:
            yield _zone(zone)
    yield from textwrap.wrap(
        "Unusable: the share in blocks too small for such a page. Fragm.: why a page would be refused; 0 is "
        "lack of memory, 1 is fragmentation, - means that it would not be. Pinned: the share of page blocks "
        "for memory that cannot move.",
        terminal_width() - 2, initial_indent="  ", subsequent_indent="  ",
    )  # fmt: skip


def _zone(zone: Zone) -> str:
    counts = zone.free_blocks
    small, middle, large = (
        sum(count << order for order, count in enumerate(counts) if first <= order < end)
        for first, end in ((0, 4), (4, 9), (9, 10))
    )
    frames = free_frames(counts)
    rest = suitable_blocks(counts, 10) << 10
    fragmentation = "-" if zone.fragmentation is None else f"{zone.fragmentation:.3f}"
    blocks = zone.pageblocks
    pinned = "?" if blocks is None or not sum(blocks.values()) else format_share(
        (blocks.get("Unmovable", 0) + blocks.get("Reclaimable", 0)) / sum(blocks.values())
    )  # fmt: skip
    shares = [format_share(part / frames) for part in (small, middle, large, rest)]
    return (
        f"  {f'{zone.node} {zone.name}':<11} {_size(zone.free):>9} {shares[0]:>8} {shares[1]:>7} "
        f"{shares[2]:>6} {shares[3]:>6} {zone.unusable:>9.3f} {fragmentation:>7} {pinned:>7}"
    )


def _huge_pages(a: Audit) -> Iterator[str]:
    yield "Huge pages"
    if a.huge_pages:
        yield (
            f"  {'size':>6} {'set aside':>10} {'free':>8} {'reserved':>9} {'surplus':>8} {'overcommit':>11} "
            f"{'more now':>9} {'at most':>8}"
        )
    for pool in a.huge_pages:
        now = _UNKNOWN if pool.more_now is None else f"{'' if pool.more_now_exact else '<='}{pool.more_now:,}"
        yield (
            f"  {_size(pool.page_size):>6} {_number(pool.total):>10} {_number(pool.free):>8} "
            f"{_number(pool.reserved):>9} {_number(pool.surplus):>8} {_number(pool.overcommit):>11} "
            f"{now:>9} {_number(pool.more_at_most):>8}"
        )
        if len(pool.nodes) > 1 and pool.total:
            of_nodes = "; ".join(f"node {n.node}: {n.total:,} ({_number(n.free)} free)" for n in pool.nodes)
            yield from textwrap.wrap(
                of_nodes, terminal_width() - 9, initial_indent=" " * 9, subsequent_indent=" " * 9
            )
    thp = a.kernel.thp
    daemon = {True: "on", False: "off", None: _UNKNOWN}[thp.khugepaged]
    none = "" if thp.max_ptes_none is None else f" (max_ptes_none {thp.max_ptes_none})"
    text = (
        f"{thp.enabled or _UNKNOWN}; defrag {thp.defrag or _UNKNOWN}; khugepaged {daemon}{none}; "
        f"shmem {thp.shmem or _UNKNOWN}"
    )
    if thp.faults is not None and thp.fallbacks is not None:
        text += (
            f"; {format_count(thp.fallbacks)} of {format_count(thp.faults + thp.fallbacks)} faults got none"
        )
    yield from _setting("transparent", text)


def _kernel(a: Audit) -> Iterator[str]:
    kernel = a.kernel
    yield "Kernel"
    module = kernel.zonesort
    sort = {True: "loaded", False: "not loaded", None: _UNKNOWN}[module.loaded]
    if module.kind:
        sort += ", pagelens'" if module.kind == "pagelens" else ", Intel's"
    if module.interval_s is not None:
        sort += f"; every {module.interval_s} s" if module.interval_s else "; on demand"
    if module.sorts is not None:
        sort += f"; {module.sorts} sorts"
        if module.last_ns is not None:
            sort += f", the last of node {module.last_node} in {module.last_ns / 1e6:.0f} ms"
    yield from _setting("zonesort", sort)
    shuffle = {True: "on", False: "off", None: _UNKNOWN}[kernel.shuffle]
    fake = {None: _UNKNOWN, "": "no"}.get(kernel.numa_fake, kernel.numa_fake)
    balancing = {None: _UNKNOWN, 0: "off"}.get(kernel.numa_balancing, f"on ({kernel.numa_balancing})")
    yield from _setting("frames", f"page shuffling {shuffle}; numa=fake {fake}; NUMA balancing {balancing}")
    counts = kernel.compaction
    yield from _setting(
        "compaction",
        f"proactiveness {_number(counts.proactiveness)}; waited for {_number(counts.stalls)} times, "
        f"{_number(counts.fails)} failed; {_number(counts.allocation_stalls)} waits for reclaim",
    )
    if kernel.turnover is not None:
        yield from _setting("handed out", f"{format_count(kernel.turnover)} times the memory since boot")
    modes = {0: "by heuristic", 1: "always", 2: "strict"}
    limit = f", {_size(kernel.commit_limit)} at most" if kernel.overcommit == 2 else ""
    mode = modes.get(-1 if kernel.overcommit is None else kernel.overcommit, _UNKNOWN)
    yield from _setting("overcommit", f"{mode}{limit}")
    if a.rights.frames is not None:
        words = {True: "may", False: "may not"}
        flags = words[bool(a.rights.flags)]
        yield from _setting(
            "this user", f"{words[a.rights.frames]} see frame numbers, {flags} see which frames are free"
        )


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    yield "Findings"
    if not findings:
        yield "  none"
    for finding in findings:
        label = finding.severity.upper() if finding.severity is Severity.bad else finding.severity
        yield from textwrap.wrap(
            finding.seen, terminal_width(), initial_indent=f"  {label:<9}", subsequent_indent=" " * 11
        )
        yield from textwrap.wrap(
            finding.why, terminal_width(), initial_indent=" " * 11, subsequent_indent=" " * 11
        )
        for command in finding.remedy:
            yield f"{' ' * 11}$ {command}"


def _setting(name: str, text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, terminal_width(), initial_indent=f"  {name:<{_LABEL}}", subsequent_indent=" " * (2 + _LABEL)
    )


def _size(size: int | None) -> str:
    return _UNKNOWN if size is None else format_binary_size(size)


def _number(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"


def _duration(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"
